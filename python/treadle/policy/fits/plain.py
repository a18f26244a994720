"""Fits that need nothing compiled: any node on which an ask fits will do."""

from __future__ import annotations

from treadle.config.parts import NoParameters
from treadle.policy.parts import PlainFit


class FirstFit(PlainFit):
    """The first node on which the ask fits, in the order of the RM's nodes."""

    def __init__(self, parameters: NoParameters) -> None:
        pass


class RandomFit(PlainFit):
    """Any node on which the ask fits, drawn with the seed."""

    draws = True

    def __init__(self, parameters: NoParameters) -> None:
        pass

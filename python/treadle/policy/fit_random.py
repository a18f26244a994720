"""Random fit."""

from __future__ import annotations

from treadle.config.parts import NoParameters
from treadle.policy.parts import PlainFit
from treadle.policy.state import RANDOM


class RandomFit(PlainFit):
    """Any node on which the ask fits, drawn with the seed."""

    rule = RANDOM

    def __init__(self, parameters: NoParameters) -> None:
        pass

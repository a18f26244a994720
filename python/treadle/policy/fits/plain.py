"""Fits that need nothing compiled: any node on which an ask fits will do."""

from __future__ import annotations

from pydantic import Field

from treadle.config.parts import NoParameters, Parameters
from treadle.policy.parts import PlainFit


class FirstFitParameters(Parameters):
    """What can be set."""

    scarcity: bool = Field(
        default=False,
        description="Of the nodes on which the ask fits, take the first of those that contended classes need least.",
    )


class FirstFit(PlainFit):
    """The first node on which the ask fits, in the order of the RM's nodes."""

    def __init__(self, parameters: FirstFitParameters) -> None:
        self.scarcity = parameters.scarcity


class RandomFit(PlainFit):
    """Any node on which the ask fits, drawn with the seed."""

    draws = True

    def __init__(self, parameters: NoParameters) -> None:
        pass

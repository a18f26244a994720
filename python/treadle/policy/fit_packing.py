"""Packing by dot product (Tetris, SIGCOMM 2014; Graphene, OSDI 2016, section 5)."""

from __future__ import annotations

from pydantic import Field

from treadle.config.parts import Parameters
from treadle.policy.parts import PlainFit
from treadle.policy.state import PACKING


class PackingParameters(Parameters):
    """What can be set."""

    window: int = Field(
        default=32,
        ge=1,
        le=1_000_000,
        description="How many nodes on which the ask fits are compared; more pack better and take longer.",
    )


class Packing(PlainFit):
    """The node whose free resources are most like the ask: the largest dot product among a window of nodes."""

    rule = PACKING

    def __init__(self, parameters: PackingParameters) -> None:
        self.window = parameters.window

"""Fits: which of the nodes found for an ask is taken."""

from __future__ import annotations

from pydantic import Field, field_validator

from treadle.config.parts import NoParameters, Parameters
from treadle.policy.parts import PlainFit
from treadle.policy.state import FIRST_FIT, PACKING, RANDOM


class FirstFit(PlainFit):
    """The first node on which the ask fits, in the order of the RM's nodes."""

    rule = FIRST_FIT

    def __init__(self, parameters: NoParameters) -> None:
        pass


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


class RandomFit(PlainFit):
    """Any node on which the ask fits, drawn with the seed."""

    rule = RANDOM

    def __init__(self, parameters: NoParameters) -> None:
        pass


class TetrisParameters(Parameters):
    """What can be set."""

    window: int = Field(
        default=32,
        ge=1,
        le=1_000_000,
        description="How many nodes on which the first ask fits are compared; more pack better and take longer.",
    )
    candidates: int = Field(
        default=16, ge=1, le=1024, description="How many requests of a queue compete for the node chosen."
    )
    remote_penalty: float = Field(
        default=0.1,
        ge=0.0,
        le=1.0,
        description="What part of its packing score an ask loses on another node than those that it names.",
    )
    srpt_weight: float = Field(
        default=1.0,
        ge=0.0,
        le=1000.0,
        description="What the work left in an application weighs beside the packing score; 0: nothing.",
    )
    overbook: dict[str, float] = Field(
        default={},
        description="Resources that the ResourceManager does not count, and how many times what a node has of them "
        "may be given out: {disk: 2.0, network: 1.5}. Never memory.",
    )

    @field_validator("overbook")
    @classmethod
    def _possible(cls, overbook: dict[str, float]) -> dict[str, float]:
        for name, factor in overbook.items():
            if name in ("memory", "memory-mb"):
                raise ValueError("memory is never overbooked; leave it out")
            if not 0.0 < factor <= 1000.0:
                raise ValueError(f"{name} is {factor}; it must be above 0 and at most 1000")
        return overbook


class Tetris(PlainFit):
    """Requests of a queue compete for a node until none fits: packing score x plan score - eta x work left."""

    rule = PACKING

    def __init__(self, parameters: TetrisParameters) -> None:
        self.window = parameters.window
        self.candidates = parameters.candidates
        self.remote_penalty = parameters.remote_penalty
        self.srpt_weight = parameters.srpt_weight
        self.overbook = parameters.overbook

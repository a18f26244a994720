"""Fits: which of the nodes found for an ask is taken, and the compiled step of the one that was chosen.

Fits that need nothing compiled: any node on which an ask fits will do.

The fit of a class of a user's: scores that it has given before the loop began.

Fits by packing score: the dot product of what is asked for and what is free (Tetris, Graphene).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field, field_validator

from treadle.compiled.functions import inner
from treadle.config.parts import NoParameters, Parameters
from treadle.policy.parts import PlainFit
from treadle.policy.state import LARGEST, NODE_LOCAL

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch


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


@inner
def keyed_score(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int, level: int) -> float:
    """Return the score of a node, by itself or for the ask."""
    return scratch.scores[row if len(scratch.scores) > 1 else 0, node]


ALL: Final = 1 << 30
"""As many rows as there may be."""


@inner
def dot_product(view: View, scratch: Scratch, row: int, node: int) -> float:
    """Return the dot product of ask and free space, each as a share of the largest node (Tetris; Graphene's pScore)."""
    value = 0.0
    for r in range(len(view.counted)):
        scale = scratch.rates[LARGEST, r]
        value += view.capability[row, r] * scale * scratch.available[node, r] * scale
    return value


@inner
def locality_factor(view: View, parameters: DecideParameters, row: int, level: int) -> float:
    """Return what is left of a score on a node this near: all of it on a node that is asked for."""
    if parameters.remote_penalty < 0.0 or view.rows[row].localities == 0 or level == NODE_LOCAL:
        return 1.0
    return 1.0 - parameters.remote_penalty


@inner
def packing_score(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int, level: int) -> float:
    """Return the packing score of an ask on a node on which there is room, less the penalty on a remote one."""
    return dot_product(view, scratch, row, node) * locality_factor(view, parameters, row, level)


class PackingParameters(Parameters):
    """What can be set."""

    window: int = Field(
        default=32,
        ge=1,
        le=1_000_000,
        description="How many nodes on which the ask fits are compared; more pack better and take longer.",
    )
    scarcity: bool = Field(
        default=False,
        description="Of the nodes on which the ask fits, compare those that contended classes need least.",
    )


class Packing(PlainFit):
    """The node whose free resources are most like the ask: the largest dot product among a window of nodes."""

    goes_round = True

    def __init__(self, parameters: PackingParameters) -> None:
        self.window = parameters.window
        self.scarcity = parameters.scarcity


class TetrisParameters(Parameters):
    """What can be set."""

    window: int = Field(
        default=32,
        ge=1,
        le=1_000_000,
        description="How many nodes on which the first ask fits are compared; more pack better and take longer.",
    )
    candidates: int = Field(
        default=16,
        ge=0,
        le=1024,
        description="How many requests of a queue compete for the node chosen, those of the first applications; "
        "0: all. A decision takes longer in proportion; one that has looked at 4,000,000 goes on with 16 of one queue.",
    )
    all_priorities: bool = Field(
        default=False,
        description="Requests of all of an application's priorities compete, not only of the first one that has any. "
        "Those that a plan ranked always do.",
    )
    across_queues: bool = Field(
        default=False,
        description="Requests of all queues compete, of each as many as candidates says, as long as the share lets the "
        "order decide: deficit below its bound, none always.",
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

    goes_round = True

    def __init__(self, parameters: TetrisParameters) -> None:
        self.window = parameters.window
        self.candidates = parameters.candidates or ALL
        self.all_priorities = parameters.all_priorities
        self.across_queues = parameters.across_queues
        self.remote_penalty = parameters.remote_penalty
        self.srpt_weight = parameters.srpt_weight
        self.overbook = parameters.overbook


RULES: Final = {"keyed": 0, "packing": 1}
"""The number of each fit with a compiled step."""


@inner
def score(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int, level: int) -> float:
    """Return how well an ask fits on a node with room."""
    if parameters.fit == 0:
        return keyed_score(view, scratch, parameters, row, node, level)
    if parameters.fit == 1:
        return packing_score(view, scratch, parameters, row, node, level)
    return 0.0

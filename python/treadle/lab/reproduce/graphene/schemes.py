"""What Graphene is compared with (OSDI 2016, section 8), as policies of the engine and orders of Tez's vertices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from treadle.config.parts import PARTS
from treadle.config.settings import Choice, Hold, Plans, Settings, default_settings, with_parts
from treadle.policy.catalogue import register_parts

SCHEDULES: Final = 50
"""Candidate schedules of a plan."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A policy, and which of a job's vertices have the better priorities (`Frameworks.tez_order`)."""

    name: str
    title: str
    parts: Mapping[str, Choice]
    order: str = "natural"
    plans: Mapping[str, Any] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()
    """Resources that the ResourceManager does not count: tasks that want more than there is slow each other down."""
    hold: Hold = field(default_factory=Hold)
    """Nodes held for large asks."""

    def settings(self, seed: int) -> Settings:
        """Return the engine's settings."""
        register_parts()
        settings = with_parts(default_settings(), self.parts)
        return replace(settings, plans=Plans(**self.plans), hold=self.hold, seed=seed)

    def varied(self, srpt_weight: float | None, hold_nodes: int | None) -> Scheme:
        """Return the scheme with other settings; None leaves one as it is.

        Args:
            srpt_weight: of the work left in perfScore, where there is a perfScore
            hold_nodes: how many nodes may be held for large asks
        """
        hold = self.hold if hold_nodes is None else self.hold.model_copy(update={"nodes_max": hold_nodes})
        fit = self.parts["fit"]
        register_parts()
        if srpt_weight is None or not isinstance(fit, str):
            return replace(self, hold=hold)
        if "srpt_weight" not in PARTS.kinds("fit")[fit].parameters.model_fields:
            return replace(self, hold=hold)
        return replace(self, hold=hold, parts={**self.parts, "fit": (fit, {"srpt_weight": srpt_weight})})


STOCK: Final = {"share": "capacity", "order": "fifo", "fit": "first_fit"}
PACKED: Final = {"share": "capacity", "order": "srpt", "fit": "tetris", "estimate": "hints"}
ORDERED: Final = {"schedules": SCHEDULES, "scores": False}
PLANNED: Final = {"schedules": SCHEDULES}

BFS: Final = Scheme("bfs", "Tez (breadth first) + capacity, all counted", STOCK)
BFS_CORES: Final = Scheme("bfs-cores", "Tez + capacity, cores and memory counted", STOCK, uncounted=("network",))
BFS_MEMORY: Final = Scheme("bfs-memory", "Tez + capacity, memory counted", STOCK, uncounted=("cpu", "network"))
BASELINES: Final = ("bfs", "bfs-cores", "bfs-memory")
"""What others are compared with. YARN's DominantResourceCalculator counts cores and memory unless resource types are
set up, its DefaultResourceCalculator, which the capacity scheduler has by default, memory alone."""
CP: Final = Scheme("cp", "Tez + critical path + capacity", STOCK, "critical_path")
TETRIS: Final = Scheme("tetris", "Tez + Tetris", PACKED)
ORDER_CAPACITY: Final = Scheme("graphene-capacity", "Tez + Graphene's order + capacity", STOCK, "plan", ORDERED)
ORDER_TETRIS: Final = Scheme("graphene-tetris", "Tez + Graphene's order + Tetris", PACKED, "plan", ORDERED)
GRAPHENE: Final = Scheme("graphene", "Graphene", PACKED, "plan", PLANNED)
SHORTEST: Final = Scheme(
    "srpt",
    "Tez, shortest job first (ours)",
    {"share": "capacity", "order": "srpt", "fit": "packing", "estimate": "hints"},
)
SHORTEST_PLANNED: Final = Scheme(
    "srpt-plan", "Graphene's order, shortest job first (ours)", SHORTEST.parts, "plan", ORDERED
)

SCHEMES: Final = (
    BFS,
    BFS_CORES,
    BFS_MEMORY,
    CP,
    TETRIS,
    ORDER_CAPACITY,
    ORDER_TETRIS,
    GRAPHENE,
    SHORTEST,
    SHORTEST_PLANNED,
)

DRF: Final = Scheme("drf", "Tez + DRF", STOCK | {"share": "drf"})
TWO_QUEUES: Final = (
    BFS,
    DRF,
    replace(TETRIS, parts=PACKED | {"share": "drf"}),
    replace(GRAPHENE, parts=PACKED | {"share": "deficit"}),
)
"""What is compared where two queues share: the share is what differs from one queue."""

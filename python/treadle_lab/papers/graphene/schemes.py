"""What Graphene is compared with (OSDI 2016, section 8), as policies of the engine and orders of Tez's vertices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from treadle.config.parts import PARTS
from treadle.config.settings import Choice, Hold, Plans, Settings, default_settings, with_parts
from treadle.dag.generate import RESOURCES
from treadle.policy.catalogue import register_parts
from treadle_lab.papers.graphene.jobs import OVERBOOKABLE

SCHEDULES: Final = 50
"""Candidate schedules of a plan."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Settings instead of a scheme's own; None leaves one as it is."""

    srpt_weight: float | None = None
    """Of the work left in perfScore."""
    hold_nodes: int | None = None
    """How many nodes may be held for large asks."""
    candidates: int | None = None
    """How many rows compete; 0: all."""
    overbook: float | None = None
    """How many times what there is of `treadle_lab.papers.graphene.jobs.OVERBOOKABLE` may be given out."""


AS_IT_IS: Final = Variation()


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

    def varied(self, variation: Variation, resources: Sequence[str] = RESOURCES) -> Scheme:
        """Return the scheme with other settings; those of perfScore change nothing where there is none.

        Args:
            variation: the settings
            resources: what machines have
        """
        held = {} if variation.hold_nodes is None else {"nodes_max": variation.hold_nodes}
        scheme = replace(self, hold=self.hold.model_copy(update=held))
        given: dict[str, Any] = {"srpt_weight": variation.srpt_weight, "candidates": variation.candidates}
        if variation.overbook is not None:
            given["overbook"] = {each: variation.overbook for each in OVERBOOKABLE if each in resources}
        changed = {name: value for name, value in given.items() if value is not None}
        fit = self.parts["fit"]
        kind, own = (fit, {}) if isinstance(fit, str) else fit
        register_parts()
        if not changed or "overbook" not in PARTS.kinds("fit")[kind].parameters.model_fields:
            return scheme
        uncounted = OVERBOOKABLE if "overbook" in changed else self.uncounted
        return replace(scheme, uncounted=uncounted, parts={**self.parts, "fit": (kind, {**own, **changed})})


STOCK: Final = {"share": "capacity", "order": "fifo", "fit": "first_fit"}
PACKED: Final = {"share": "capacity", "order": "srpt", "fit": "tetris", "estimate": "hints"}
ORDERED: Final = {"schedules": SCHEDULES, "scores": False}
PLANNED: Final = {"schedules": SCHEDULES}

BFS: Final = Scheme("bfs", "Tez (breadth first) + capacity, all counted", STOCK)
BFS_CORES: Final = Scheme("bfs-cores", "Tez + capacity, cores and memory counted", STOCK, uncounted=OVERBOOKABLE)
BFS_MEMORY: Final = Scheme("bfs-memory", "Tez + capacity, memory counted", STOCK, uncounted=("cpu", *OVERBOOKABLE))
BASELINES: Final = ("bfs", "bfs-cores", "bfs-memory")
"""What others are compared with. YARN's DominantResourceCalculator counts cores and memory unless resource types are
set up, its DefaultResourceCalculator, which the capacity scheduler has by default, memory alone."""
CP: Final = Scheme("cp", "Tez + critical path + capacity", STOCK, "critical_path")
TETRIS: Final = Scheme("tetris", "Tez + Tetris", PACKED)
TETRIS_ALL: Final = Scheme(
    "tetris-all",
    "Tez + Tetris over all runnable tasks",
    PACKED | {"fit": ("tetris", {"all_priorities": True})},
)
"""`TETRIS` sees a job's first priority alone, in Tez's order; this one all that could run, as the paper's does."""
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
    TETRIS_ALL,
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
    replace(
        GRAPHENE,
        name="graphene-across",
        title="Graphene, perfScore across queues",
        parts=PACKED | {"share": "deficit", "fit": ("tetris", {"candidates": 0, "across_queues": True})},
    ),
)
"""What is compared where two queues share: the share is what differs from one queue."""

"""Jobs under schemes, over draws of jobs and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from treadle_lab.harness.runs import RunSettings, run_all
from treadle_lab.papers.graphene.jobs import BFS, BFS_CORES, BFS_MEMORY, GRAPHENE, SCHEMES, TETRIS, Mix, Scheme
from treadle_lab.papers.graphene.simulations import (
    TICK_MS,
    BatchBounds,
    BoundsRun,
    Draw,
    Result,
    SchemeRun,
    result_of,
    run_one,
)

# The paper's text at hand has lost almost all digits; these are left.

MEDIAN_SHORTER_PERCENT: Final = 25.0
"""Abstract: median job completion time, against breadth first + capacity."""
THROUGHPUT_HIGHER_PERCENT: Final = 30.0
"""Abstract: cluster throughput."""
HALF_SHORTER_PERCENT: Final = 30.0
"""Technical report: half of the jobs are this much faster, or more."""

LOST: Final = (
    "offline makespans against other algorithms and the lower bound",
    "completion times by benchmark and percentile",
    "makespan of a batch",
    "completion times with two queues, and Jain's index by window",
    "wrong estimates",
)
"""What else the paper measured: no figure of these is left, and none here is the paper's."""


class Part(StrEnum):
    """A part of the evaluation; each can be run by itself."""

    ONLINE = "online"
    """Poisson arrivals under all schemes."""
    BATCH = "batch"
    """The same jobs at once: throughput."""


TPCH_MACHINES: Final = 8
GENERATED_MACHINES: Final = 4
COMPARED: Final = (BFS, BFS_CORES, BFS_MEMORY, TETRIS, GRAPHENE)
"""Schemes whose throughput is compared."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the experiment."""

    jobs: int = 40
    load: float = 0.6
    tick_ms: int = TICK_MS
    """Interval of decisions in ms."""
    parts: frozenset[Part] = frozenset(Part)
    """The parts to run."""
    schemes: frozenset[str] = frozenset(scheme.name for scheme in SCHEMES)
    """Those that are run; `bfs` always is."""


@dataclass(slots=True)
class Outcome:
    """The results of one seed."""

    seed: int
    online: dict[str, dict[str, Result]] = field(default_factory=dict)
    """By workload and scheme."""
    batch: dict[str, dict[str, Result]] = field(default_factory=dict)
    batch_bounds: dict[str, BatchBounds] = field(default_factory=dict)
    """By workload: what no scheduler can beat."""
    wall_s: float = 0.0


Place = tuple[str, ...]
"""Where a result belongs: the field of `Outcome`, and its keys there."""


def runs_of(tpch: Path | None, sizes: Sizes, seed: int) -> Iterator[tuple[Place, SchemeRun | BoundsRun]]:
    """Yield the runs of a seed."""
    folders: dict[str, Path | None] = {"generated": None} if tpch is None else {"tpch": tpch, "generated": None}
    for name, folder in folders.items():
        mix = Mix(GENERATED_MACHINES if folder is None else TPCH_MACHINES)
        draw = Draw(mix, seed, sizes.jobs, sizes.load, tpch=folder)
        if Part.ONLINE in sizes.parts:
            yield from _under(sizes, ("online", name), draw, SCHEMES)
        if Part.BATCH in sizes.parts:
            batch = replace(draw, batch=True)
            yield ("batch_bounds", name), BoundsRun(batch)
            yield from _under(sizes, ("batch", name), batch, COMPARED)


def _under(sizes: Sizes, place: Place, draw: Draw, schemes: Sequence[Scheme]) -> Iterator[tuple[Place, SchemeRun]]:
    for scheme in schemes:
        if scheme == BFS or scheme.name in sizes.schemes:
            yield (*place, scheme.name), SchemeRun(draw, scheme, sizes.tick_ms)


def run_seeds(
    tpch: Path | None,
    sizes: Sizes,
    seeds: Sequence[int],
    settings: RunSettings,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Return the results of each seed.

    Args:
        tpch: the folder of TPC-H's measured DAGs; None leaves that workload out
        sizes: how much is run
        seeds: which
        settings: where results are kept, and how many run at a time
        progress: called with the runs that are done, and their number

    Raises:
        UserError: runs failed, each of which is named; the others have run, and are kept.
        WorkloadError: the data is missing or wrong.
    """
    outcomes = {seed: Outcome(seed) for seed in seeds}
    wanted = [(outcomes[seed], *each) for seed in seeds for each in runs_of(tpch, sizes, seed)]
    results = run_all([run for *_, run in wanted], run_one, settings, progress)
    for (outcome, (part, workload, *names), run), document in zip(wanted, results, strict=True):
        if isinstance(run, BoundsRun):
            bounds = {each.name: document[each.name] for each in fields(BatchBounds)}
            outcome.batch_bounds[workload] = BatchBounds(**bounds)
            continue
        getattr(outcome, part).setdefault(workload, {})[names[0]] = result_of(document)
        outcome.wall_s += document["wall_s"]
    return [outcomes[seed] for seed in seeds]

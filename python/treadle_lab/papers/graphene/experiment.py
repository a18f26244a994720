"""Jobs under schemes, over draws of jobs and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Final

from treadle_lab.dags import Shape
from treadle_lab.harness.runs import RunSettings, run_all
from treadle_lab.papers.graphene.jobs import (
    BFS,
    BFS_CORES,
    BFS_MEMORY,
    GRAPHENE,
    PLANNED,
    SCHEMES,
    TETRIS,
    TWO_QUEUES,
    Mix,
    Scheme,
)
from treadle_lab.papers.graphene.paper import Part
from treadle_lab.papers.graphene.simulations import (
    TICK_MS,
    BatchBounds,
    BoundsRun,
    Draw,
    OneDag,
    Result,
    SchemeRun,
    result_of,
    run_one,
)

TPCH_MACHINES: Final = 8
GENERATED_MACHINES: Final = 4
QUEUES: Final = ("left", "right")
WRONG_FACTORS: Final = (1.5, 3.0, 10.0)
"""Maximum factors of wrong durations, either way, by stage."""
ALONE: Final = Shape(machines=4, depth=(4, 8), stages=(10, 30), tasks=(300, 800))
"""DAGs that run alone by wrong plans."""
UNCHECKED: Final = 1000.0
"""A plan is never wrong by this factor."""
COMPARED: Final = (BFS, BFS_CORES, BFS_MEMORY, TETRIS, GRAPHENE)
"""Schemes whose throughput is compared."""
ONE_QUEUE: Final = (BFS, TETRIS, GRAPHENE)
OVER_RANGE: Final = (BFS, BFS_CORES, TETRIS, GRAPHENE)
SWEEP: Final = (0.0, 0.5, 1.0)
"""Shares of long and of fragmenting stages at which jobs are run online."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the experiment."""

    jobs: int = 40
    load: float = 0.6
    tick_ms: int = TICK_MS
    """Interval of decisions in ms."""
    alone: int = 20
    """DAGs that run alone by wrong plans."""
    sweep_jobs: int = 20
    """Jobs at each point of the generator's range."""
    parts: frozenset[Part] = frozenset(Part)
    """The parts to run."""
    schemes: frozenset[str] = frozenset(scheme.name for scheme in SCHEMES)
    """The schemes to run in parts online, batch and range; `bfs` always is."""


@dataclass(slots=True)
class Outcome:
    """The results of one seed."""

    seed: int
    online: dict[str, dict[str, Result]] = field(default_factory=dict)
    """By workload and scheme."""
    one_queue: dict[str, Result] = field(default_factory=dict)
    """Generated jobs in one queue, by scheme: what two queues and wrong estimates are compared with."""
    batch: dict[str, dict[str, Result]] = field(default_factory=dict)
    batch_bounds: dict[str, BatchBounds] = field(default_factory=dict)
    """By workload: what no scheduler can beat."""
    two_queues: dict[str, Result] = field(default_factory=dict)
    """Generated jobs, by scheme."""
    wrong: dict[str, Result] = field(default_factory=dict)
    """Generated jobs, by scheme and factor."""
    sweep: dict[str, dict[str, Result]] = field(default_factory=dict)
    """By `point_name` and scheme."""
    alone: dict[str, list[int]] = field(default_factory=dict)
    """Makespans of DAGs that run alone, by planning algorithm."""
    wall_s: float = 0.0


def point_name(point: tuple[float, float]) -> str:
    """Return what a point of the generator's range is called, by its shares of long and of fragmenting stages."""
    return f"long {point[0]:g}, fragmenting {point[1]:g}"


Place = tuple[str, ...]
"""Where a result belongs: the field of `Outcome`, and its keys there."""


def runs_of(tpch: Path | None, sizes: Sizes, seed: int) -> Iterator[tuple[Place, SchemeRun | BoundsRun]]:
    """Yield the runs of a seed."""
    parts = sizes.parts
    folders: dict[str, Path | None] = {"generated": None} if tpch is None else {"tpch": tpch, "generated": None}
    for name, folder in folders.items():
        mix = Mix(GENERATED_MACHINES if folder is None else TPCH_MACHINES)
        draw = Draw(mix, seed, sizes.jobs, sizes.load, tpch=folder)
        if Part.ONLINE in parts:
            yield from _under(sizes, ("online", name), draw, _wanted(sizes, SCHEMES))
        if Part.BATCH in parts:
            batch = replace(draw, batch=True)
            yield ("batch_bounds", name), BoundsRun(batch)
            yield from _under(sizes, ("batch", name), batch, _wanted(sizes, COMPARED))
    if parts & {Part.QUEUES, Part.WRONG}:
        yield from _under(sizes, ("one_queue",), draw, ONE_QUEUE)  # those of part online run once
    if Part.QUEUES in parts:
        yield from _under(sizes, ("two_queues",), replace(draw, queues=QUEUES), TWO_QUEUES)
    for factor in WRONG_FACTORS if Part.WRONG in parts else ():
        for scheme in (TETRIS, GRAPHENE):  # breadth first does not look at durations
            yield ("wrong", f"{scheme.name} {factor:g}"), _run(sizes, draw, scheme, factor)
    for number in range(sizes.alone if Part.ALONE in parts else 0):
        one = OneDag(Mix(ALONE.machines), 1000 * seed + number, ALONE)
        never = replace(GRAPHENE, plans={**PLANNED, "wrong_factor": UNCHECKED})
        for name, scheme, factor in (
            ("no plan", TETRIS, 1.0),
            ("right", GRAPHENE, 1.0),
            ("wrong", GRAPHENE, 10.0),
            ("wrong, kept", never, 10.0),
        ):
            yield ("alone", name), _run(sizes, one, scheme, factor)
    for long_share, fragmenting in product(SWEEP, SWEEP) if Part.RANGE in parts else ():
        mix = Mix(GENERATED_MACHINES, long_share, fragmenting)
        point = Draw(mix, seed, sizes.sweep_jobs, sizes.load)
        yield from _under(sizes, ("sweep", point_name((long_share, fragmenting))), point, _wanted(sizes, OVER_RANGE))


def _wanted(sizes: Sizes, schemes: Sequence[Scheme]) -> list[Scheme]:
    return [scheme for scheme in schemes if scheme == BFS or scheme.name in sizes.schemes]


def _under(sizes: Sizes, place: Place, draw: Draw, schemes: Sequence[Scheme]) -> Iterator[tuple[Place, SchemeRun]]:
    return (((*place, scheme.name), _run(sizes, draw, scheme)) for scheme in schemes)


def _run(sizes: Sizes, draw: Draw | OneDag, scheme: Scheme, wrong: float = 1.0) -> SchemeRun:
    return SchemeRun(draw, scheme, sizes.tick_ms, wrong)


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
    for (outcome, (part, *names), run), document in zip(wanted, results, strict=True):
        table = getattr(outcome, part)
        for name in names[:-1]:
            table = table.setdefault(name, {})
        if isinstance(run, BoundsRun):
            table[names[-1]] = BatchBounds(**{each.name: document[each.name] for each in fields(BatchBounds)})
        elif part == "alone":
            table.setdefault(names[-1], []).append(result_of(document).makespan_ms)
        else:
            table[names[-1]] = result_of(document)
        if part != "one_queue" or not outcome.online:
            outcome.wall_s += document.get("wall_s", 0.0)
    return [outcomes[seed] for seed in seeds]

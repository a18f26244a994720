"""Jobs under schemes, over draws of jobs and seeds."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from treadle.dag.dag import Dag, Shape, generate
from treadle.errors import UserError
from treadle.sweep.runs import result_bytes, run_locally
from treadle.workload.generate import Shape as JobShape
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle_lab.harness.runs import Asked, tell
from treadle_lab.papers.graphene.jobs import (
    AS_IT_IS,
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
    Variation,
    arrivals,
    at_once,
    generated,
    misjudged,
    tpch_shaped,
)
from treadle_lab.papers.graphene.paper import Part
from treadle_lab.papers.graphene.simulations import (
    TICK_MS,
    BatchBounds,
    KeptResults,
    Plans,
    Progress,
    Result,
    bounds_of,
    run_scheme,
    scenario_of,
)

TPCH_MACHINES: Final = 8
GENERATED_MACHINES: Final = 4
QUEUES: Final = ("left", "right")
WRONG_FACTORS: Final = (1.5, 3.0, 10.0)
"""Durations that are believed are off by up to so much, either way, each stage by itself."""
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
    """How much is run."""

    jobs: int = 40
    load: float = 0.6
    tick_ms: int = TICK_MS
    """How often the engine decides."""
    alone: int = 20
    """DAGs that run alone by wrong plans."""
    sweep_jobs: int = 20
    """Jobs at each point of the generator's range."""
    parts: frozenset[Part] = frozenset(Part)
    """What is run at all."""
    schemes: frozenset[str] = frozenset(scheme.name for scheme in SCHEMES)
    """Of the schemes that parts online, batch and range compare, those that are run; `bfs` always is."""
    variation: Variation = AS_IT_IS
    """Settings instead of the schemes' own."""
    usage: tuple[float, float] = (1.0, 1.0)
    """What part of their peaks tasks use of what may be overbooked."""


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
    sweep: dict[tuple[float, float], dict[str, Result]] = field(default_factory=dict)
    """By shares of long and of fragmenting stages, and scheme."""
    alone: dict[str, list[int]] = field(default_factory=dict)
    """Makespans of DAGs that run alone, by what they are planned by."""
    wall_s: float = 0.0


class Experiment:
    """Runs all of it, seed by seed."""

    def __init__(
        self, tpch: Path | None, sizes: Sizes, progress: Progress | None = None, keep: Path | None = None
    ) -> None:
        """Prepare; the data is read at once.

        Args:
            tpch: the folder of TPC-H's measured DAGs; None leaves that workload out
            sizes: how much is run
            progress: called with the name of what runs
            keep: a folder in which results are kept, and looked for before anything is run; None: none are

        Raises:
            WorkloadError: the data is missing or wrong.
        """
        self._sizes = sizes
        self._progress = progress
        self._kept = KeptResults(keep)
        self._plans: Plans = {}
        self._ran = 0
        self._shapes: dict[str, tuple[JobShape, Mix]] = {}
        if tpch is not None:
            mix = Mix(TPCH_MACHINES)
            self._shapes["tpch"] = (tpch_shaped(tpch, mix), mix)
        mix = Mix(GENERATED_MACHINES)
        self._shapes["generated"] = (generated(mix), mix)

    @property
    def runs(self) -> int:
        """How many simulations a seed has."""
        parts, compared = self._sizes.parts, len(self._wanted(COMPARED))
        count = 4 * self._sizes.alone * (Part.ALONE in parts)
        count += len(self._shapes) * (
            len(self._wanted(SCHEMES)) * (Part.ONLINE in parts) + compared * (Part.BATCH in parts)
        )
        if parts & {Part.QUEUES, Part.WRONG} and Part.ONLINE not in parts:
            count += len(ONE_QUEUE)
        count += len(TWO_QUEUES) * (Part.QUEUES in parts) + 2 * len(WRONG_FACTORS) * (Part.WRONG in parts)
        return count + len(SWEEP) ** 2 * len(self._wanted(OVER_RANGE)) * (Part.RANGE in parts)

    def run(self, seed: int) -> Outcome:
        """Run everything with one seed."""
        outcome, self._ran = Outcome(seed), 0
        parts = self._sizes.parts
        for name, (shape, mix) in self._shapes.items():
            jobs = arrivals(shape, mix, seed, self._sizes.jobs, self._sizes.load)
            if Part.ONLINE in parts:
                outcome.online[name] = self._all(jobs, self._wanted(SCHEMES), mix, seed, f"{name}: ")
            if Part.BATCH in parts:
                outcome.batch_bounds[name] = bounds_of(at_once(jobs), mix)
                outcome.batch[name] = self._all(at_once(jobs), self._wanted(COMPARED), mix, seed, f"{name}, at once: ")
        mix = Mix(GENERATED_MACHINES)
        if parts & {Part.QUEUES, Part.WRONG}:
            self._one_queue(outcome, mix)
        if Part.QUEUES in parts:
            jobs = arrivals(generated(mix), mix, seed, self._sizes.jobs, self._sizes.load, QUEUES)
            outcome.two_queues = self._all(jobs, TWO_QUEUES, mix, seed, "two queues: ", QUEUES)
        if Part.WRONG in parts:
            self._wrong(outcome, mix)
        if Part.ALONE in parts:
            self._alone(outcome)
        if Part.RANGE in parts:
            self._sweep(outcome)
        outcome.wall_s = sum(result.wall_s for result in self._results(outcome))
        return outcome

    @staticmethod
    def _results(outcome: Outcome) -> list[Result]:
        tables: list[Mapping[str, Result]] = [*outcome.online.values(), *outcome.batch.values()]
        if "generated" not in outcome.online:
            tables.append(outcome.one_queue)
        tables += [outcome.two_queues, outcome.wrong, *outcome.sweep.values()]
        return [result for table in tables for result in table.values()]

    def _wanted(self, schemes: Sequence[Scheme]) -> list[Scheme]:
        return [scheme for scheme in schemes if scheme == BFS or scheme.name in self._sizes.schemes]

    def _run(
        self,
        jobs: Workload,
        scheme: Scheme,
        mix: Mix,
        seed: int,
        *,
        queues: Sequence[str] = ("one",),
        believed: Sequence[Dag | None] | None = None,
        title: str = "",
    ) -> Result:
        """Run jobs under a scheme, unless the result is kept."""
        mix = replace(mix, usage=self._sizes.usage)
        scheme = scheme.varied(self._sizes.variation, mix.resources)
        scenario = scenario_of(mix, scheme, queues, self._sizes.tick_ms)
        key = self._kept.key(f"{seed}-{scheme.name}", jobs, believed, scenario, scheme.settings(seed))
        result = self._kept.read(key)
        if result is None:
            result = run_scheme(
                jobs,
                scheme,
                mix,
                seed,
                queues=queues,
                believed=believed,
                progress=self._progress,
                title=title,
                plans=self._plans,
                tick_ms=self._sizes.tick_ms,
            )
            self._kept.write(key, result)
        self._ran += 1
        tell(self._ran / self.runs)
        return result

    def _all(
        self,
        jobs: Workload,
        schemes: Sequence[Scheme],
        mix: Mix,
        seed: int,
        title: str,
        queues: Sequence[str] = ("one",),
    ) -> dict[str, Result]:
        return {scheme.name: self._run(jobs, scheme, mix, seed, queues=queues, title=title) for scheme in schemes}

    def _one_queue(self, outcome: Outcome, mix: Mix) -> None:
        """Run generated jobs in one queue, unless that was done."""
        outcome.one_queue = outcome.online.get("generated", {})
        if not outcome.one_queue:
            jobs = arrivals(generated(mix), mix, outcome.seed, self._sizes.jobs, self._sizes.load)
            outcome.one_queue = self._all(jobs, ONE_QUEUE, mix, outcome.seed, "generated: ")

    def _wrong(self, outcome: Outcome, mix: Mix) -> None:
        """Run generated jobs whose durations are misjudged; breadth first does not look at them."""
        jobs = arrivals(generated(mix), mix, outcome.seed, self._sizes.jobs, self._sizes.load)
        for factor in WRONG_FACTORS:
            believed = misjudged(jobs, factor, outcome.seed)
            for scheme in (TETRIS, GRAPHENE):
                title = f"durations off {factor:g} times: "
                outcome.wrong[f"{scheme.name} {factor:g}"] = self._run(
                    jobs, scheme, mix, outcome.seed, believed=believed, title=title
                )

    def _alone(self, outcome: Outcome) -> None:
        """Run DAGs one by one on an idle cluster: without a plan, by a right one, and by wrong ones."""
        mix = Mix(ALONE.machines)
        never = replace(GRAPHENE, plans={**PLANNED, "wrong_factor": UNCHECKED})
        found: dict[str, list[int]] = {name: [] for name in ("no plan", "right", "wrong", "wrong, kept")}
        for number in range(self._sizes.alone):
            if self._progress is not None:
                self._progress("one DAG alone, by wrong plans", number, self._sizes.alone)
            seed = 1000 * outcome.seed + number
            job = Job("alone", 0, generate(seed, ALONE).dag, Framework.TEZ, queue="one")
            jobs = arranged([job])
            wrong = misjudged(jobs, 10.0, seed)
            found["no plan"].append(self._run(jobs, TETRIS, mix, seed).makespan_ms)
            found["right"].append(self._run(jobs, GRAPHENE, mix, seed).makespan_ms)
            found["wrong"].append(self._run(jobs, GRAPHENE, mix, seed, believed=wrong).makespan_ms)
            found["wrong, kept"].append(self._run(jobs, never, mix, seed, believed=wrong).makespan_ms)
        outcome.alone = found

    def _sweep(self, outcome: Outcome) -> None:
        """Run generated jobs over the range of the generator's parameters."""
        for long_share in SWEEP:
            for fragmenting in SWEEP:
                mix = Mix(GENERATED_MACHINES, long_share, fragmenting)
                jobs = arrivals(generated(mix), mix, outcome.seed, self._sizes.sweep_jobs, self._sizes.load)
                title = f"long {long_share:g}, fragmenting {fragmenting:g}: "
                compared = self._wanted(OVER_RANGE)
                outcome.sweep[long_share, fragmenting] = self._all(jobs, compared, mix, outcome.seed, title)


@dataclass(frozen=True, slots=True)
class SeedRun:
    """All simulations of a seed."""

    tpch: Path | None
    sizes: Sizes
    cache: Path | None
    seed: int

    @property
    def key(self) -> str:
        """What distinguishes it from other seeds; it is not kept as a whole, since each of its simulations is."""
        return f"seed {self.seed}"


@lru_cache(maxsize=1)
def _experiment(tpch: Path | None, sizes: Sizes, cache: Path | None) -> Experiment:
    return Experiment(tpch, sizes, keep=cache)


def _run(wanted: SeedRun) -> tuple[bytes, bool]:
    try:
        return pickle.dumps(_experiment(wanted.tpch, wanted.sizes, wanted.cache).run(wanted.seed)), False
    except UserError as error:
        return result_bytes({"failure": str(error)}), True


def run_seeds(
    tpch: Path | None,
    sizes: Sizes,
    seeds: Sequence[int],
    asked: Asked,
    progress: Callable[[float, int], None] | None = None,
) -> list[Outcome]:
    """Return the results of each seed.

    Args:
        tpch: the folder of TPC-H's measured DAGs; None leaves that workload out
        sizes: how much is run
        seeds: which
        asked: where results of simulations are kept, and how many seeds run at a time
        progress: called with the seeds that are done, fractions included, and their number

    Raises:
        UserError: seeds failed, each of which is named; the others have run.
    """
    _experiment(tpch, sizes, asked.cache)  # an error in the data or the folder is reported once
    tasks = [SeedRun(tpch, sizes, asked.cache, seed) for seed in seeds]

    def tell_all(done: float) -> None:
        if progress is not None:
            progress(done, len(tasks))

    found: dict[int, Outcome] = {}
    failed = []
    with closing(run_locally(tasks, _run, asked.processes or os.cpu_count() or 1, tell_all)) as running:
        for each in running:
            seed = tasks[each.number].seed
            if each.failed:
                failed.append(f"seed {seed}: {json.loads(each.result)['failure']}")
            else:
                found[seed] = pickle.loads(each.result)  # noqa: S301 (of a process of our own)
    if failed:
        raise UserError("\n".join([*failed, f"{len(failed)} of {len(tasks)} seeds failed"]))
    return [found[seed] for seed in seeds]

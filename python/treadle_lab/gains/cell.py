"""A cell of the comparison: a policy on a workload with a seed; its run, and bounds that hold for any policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from heapq import heappop, heappush
from inspect import getsource
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from treadle import __version__
from treadle.config.settings import Settings
from treadle.errors import UserError
from treadle.shipped import find_policy, ready_made
from treadle.simulate import Scenario
from treadle.simulate.batch import Run, RunSpec, completion_s, figures_of, run_line, settings_of
from treadle.simulator.results import FailedRun, path_ms
from treadle.simulator.scenario import capacity_of
from treadle.sweep.runs import engine_digest
from treadle.workload.job import Workload, job_work, loads
from treadle_lab.gains import workloads
from treadle_lab.gains.workloads import FIRST_SEED, HOURS, POINTS, Point

BASELINE: Final = "fair"
READY_MADE: Final = tuple(ready_made())
STOCK: Final = {"fifo": "YARN's fifo", "fair": "YARN's fair", "fair-by-size": "YARN's fair by size"}
REFERENCES: Final = {
    "srpt-true": "reference: SRPT, true durations",
    "fair-finish-true": "reference: fair sharing's finish order, true durations",
}
ONE_QUEUE: Final = {"drf": "capacity", "hdrf": "capacity", "hdrf-srpt": "srpt"}
"""With one queue a share decides nothing: these are the policies on the right."""
PLACES: Final = {"mapreduce-workers": "-", "phoenix": "Unlike nodes", "slearn-history": "-"}
"""The only workloads of some policies. On others they equal another policy: `phoenix` without constraints `srpt`,
`slearn-history` without a store `slearn`. `mapreduce-workers` limits each job to ten tasks next to other engines; alone
it would only measure that limit."""
FOLDER: Final = Path(__file__).parent / "policies"
QUICK: Final = ("fifo", "fair", "fair-by-size", "srpt", "slearn")


def names_at(point: Point) -> tuple[str, ...]:
    """Return the policies that run at a point: those that are another one there do not."""
    if point.only:
        return point.only
    own = (*READY_MADE, *(name for name in STOCK if name not in READY_MADE), *REFERENCES)
    left_out = set() if point.several_queues else set(ONE_QUEUE)
    left_out |= {name for name, workload in PLACES.items() if not point.workload.startswith(workload)}
    return tuple(name for name in own if name not in left_out)


def file_of(name: str) -> Path:
    """Return a policy's file."""
    own = FOLDER / f"{name}.yaml"
    return own if own.is_file() else find_policy(name)


def chosen(name: str, scenario: Scenario) -> Settings:
    """Return a policy's settings on a scenario."""
    return settings_of(file_of(name), scenario)[1]


def pooled_ms(workload: Workload, capacity: Mapping[str, float]) -> list[float]:
    """Return each job's work on the busiest resource: how long it alone would keep all of that busy, in ms."""
    busy = loads(workload, capacity)
    name = max(busy, key=lambda resource: busy[resource])
    return [job_work(job).get(name, 0.0) / capacity[name] for job in workload.jobs]


def bound_ms(workload: Workload, capacity: Mapping[str, float]) -> float:
    """Return what no mean completion time is below: preemptive fluid SRPT of the pooled work, or the critical paths."""
    arrivals = [float(job.arrival_ms) for job in workload.jobs]
    pooled = srpt_mean(arrivals, pooled_ms(workload, capacity))
    return max(pooled, sum(path_ms(job.dag) for job in workload.jobs) / len(workload.jobs))


def srpt_mean(arrivals: Sequence[float], work: Sequence[float]) -> float:
    """Return the mean completion time on one machine of speed 1, the least remaining work first, preemptively.

    Args:
        arrivals: ascending
        work: of each job
    """
    waiting: list[tuple[float, float]] = []
    now, total = 0.0, 0.0
    for arrival, size in [*zip(arrivals, work, strict=True), (float("inf"), 0.0)]:
        while waiting and now < arrival:
            left, came = heappop(waiting)
            if now + left > arrival:
                heappush(waiting, (left - (arrival - now), came))
                now = arrival
            else:
                now += left
                total += now - came
        if size or arrival < float("inf"):
            now = max(now, arrival)
            heappush(waiting, (size, arrival))
    return total / len(arrivals)


def fair_finish(workload: Workload, capacity: Mapping[str, float]) -> Workload:
    """Return the jobs with priorities in the order in which fair sharing would end them, first the highest.

    Each leaf is a system of its own, in which its jobs share all of the pooled cluster equally.
    """
    work = pooled_ms(workload, capacity)
    tags = [0.0] * len(work)
    for queue in {job.queue for job in workload.jobs}:
        own = [at for at, job in enumerate(workload.jobs) if job.queue == queue]
        for at, tag in zip(
            own, finish_tags([float(workload.jobs[at].arrival_ms) for at in own], [work[at] for at in own]), strict=True
        ):
            tags[at] = tag
    ranks = {at: rank for rank, at in enumerate(sorted(range(len(work)), key=lambda at: -tags[at]))}
    return replace(workload, jobs=tuple(replace(job, priority=ranks[at]) for at, job in enumerate(workload.jobs)))


def finish_tags(arrivals: Sequence[float], work: Sequence[float]) -> list[float]:
    """Return virtual times at which jobs end under processor sharing: they end in the order of these.

    Args:
        arrivals: ascending
        work: of each job
    """
    present: list[float] = []
    now, virtual, tags = 0.0, 0.0, []
    for arrival, size in zip(arrivals, work, strict=True):
        while present and now + (present[0] - virtual) * len(present) <= arrival:
            now += (present[0] - virtual) * len(present)
            virtual = heappop(present)
        if present:
            virtual += (arrival - now) / len(present)
        now = arrival
        tags.append(virtual + size)
        heappush(present, tags[-1])
    return tags


MODEL: Final = 1
"""Raise it when a change of the engine or the simulator changes results: kept cells then run again."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """One simulation."""

    x: str
    policy: str
    seed: int
    hours: float

    @property
    def key(self) -> str:
        """The digest of what draws the jobs, the policy, the seed and, of a trace, the length of its window."""
        hours = self.hours if POINTS[self.x].by_hours else None
        parts = [self.x, _source(self.x), self.policy, _content(self.policy), self.seed, hours, __version__, MODEL]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"{self.x}, {self.policy}, seed {self.seed}"

    def run(self) -> dict[str, Any]:
        """Return its figures.

        Raises:
            UserError: a part of the policy failed, or a job did not end.
        """
        document, workload = drawn(self.x, self.seed, self.hours)
        scenario = Scenario.of(document)
        every = capacity_of(scenario.model)
        uncounted = {each.name for each in scenario.model.cluster.resources if not each.counted}
        counted = {name: amount for name, amount in every.items() if name not in uncounted}
        jobs = fair_finish(workload, every) if self.policy == "fair-finish-true" else workload
        scenario = scenario.with_jobs(jobs)
        settings = chosen(self.policy, scenario)
        outcome = run_line(RunSpec(scenario, self.policy, settings, self.seed, check=False, tasks=False))
        if isinstance(outcome.result, FailedRun):
            raise UserError(outcome.result.failure)
        result = outcome.result
        undone = int(np.isnan(result.completion_s).sum())
        if undone:
            raise UserError(f"{undone} jobs did not end: {'; '.join(outcome.notes)}")
        bound = {"bound_s": bound_ms(workload, counted) / 1000.0} if self.policy == BASELINE else {}
        return _kept(result) | bound | {"cpu_s": round(result.summary.cpu_s, 2), "code": engine_digest()}


@cache
def _content(policy: str) -> Any:
    """Return what a policy's file says, without its comments."""
    return yaml.safe_load(file_of(policy).read_text("utf-8"))


@cache
def _source(x: str) -> list[str]:
    """Return the code and the arguments of what draws a point's jobs."""
    draw = POINTS[x].draw
    return [getsource(draw.func), repr(draw.args), repr(draw.keywords), getsource(workloads)]


@lru_cache(maxsize=1)
def drawn(x: str, seed: int, hours: float) -> tuple[dict[str, Any], Workload]:
    """Return what a seed draws: cells of a point and a seed come one after another."""
    return POINTS[x].draw(seed, hours)


def _kept(result: Run) -> dict[str, Any]:
    jobs, summary = result.jobs, result.summary
    return {
        "figures": figures_of(jobs),
        "completion_ms": np.rint(1000.0 * completion_s(jobs)).astype(np.int64).tolist(),
        "use": summary.utilisation,
        "share_deviation": summary.share_deviation if len(summary.leaf_shares) > 1 else None,
    }


QUICK_X: Final = ("Google 2011: load 0.95", "Spark TPC-H: load 0.9, unlimited, idle 60 s")
QUICK_DRAWS: Final = 3
QUICK_HOURS: Final = 4.0
DRAWS: Final = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """The wanted parts of the experiment."""

    xs: tuple[str, ...]
    policies: Callable[[str], Sequence[str]]
    draws: int
    hours: float = HOURS
    """Hours of a window of a trace."""
    command: str = "treadle lab gains"

    def cells(self) -> list[Simulated]:
        """Return all cells; those of a point and a seed one after another, which then draw their jobs once."""
        return [
            Simulated(x, policy, seed, self.hours)
            for seed in range(FIRST_SEED, FIRST_SEED + self.draws)
            for x in self.xs
            for policy in self.policies(x)
        ]


def whole(draws: int = DRAWS, policy: str | None = None) -> Plan:
    """Return the whole experiment; with a ``policy`` it is compared with stock orders and references alone."""
    if policy is None:
        return Plan(tuple(POINTS), lambda x: names_at(POINTS[x]), draws)
    xs = tuple(x for x in POINTS if not POINTS[x].only)
    return Plan(xs, lambda x: (*STOCK, *REFERENCES, policy), draws)


def quick() -> Plan:
    """Return what takes ten minutes on two cores."""
    return Plan(QUICK_X, lambda x: QUICK, QUICK_DRAWS, QUICK_HOURS, "treadle lab gains --quick")

"""Traces of jobs, and machines and constraints that are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.constraints import ANY, Conjunction, Predicate, conjunction
from treadle.errors import UserError
from treadle.workload.clusters import SwimModel, swim_jobs
from treadle_lab.harness.data import FACEBOOK_2010, given_or_default
from treadle_lab.harness.data import GOOGLE as GOOGLE_2011
from treadle_lab.models.worker_state import Trace, google_trace, trace_of
from treadle_lab.models.workers import Eligible, Groups

ELIGIBLE_BYTES_MAX: Final = 2_000_000_000

Flags = npt.NDArray[np.bool_]


class Machines:
    """Values of machines, by attribute.

    Args:
        slots: how many machines there are
        columns: the value of each machine for each attribute; empty where it has none
    """

    def __init__(self, slots: int, columns: Mapping[str, Sequence[str]]) -> None:
        """Keep the different values of each attribute, and which of them each machine has."""
        self.slots = slots
        self._columns = {name: np.unique(np.array(column), return_inverse=True) for name, column in columns.items()}
        self._known: dict[Predicate, Flags] = {}

    @property
    def names(self) -> list[str]:
        """Return the attributes."""
        return list(self._columns)

    @property
    def codes(self) -> npt.NDArray[np.int64]:
        """Return (machine, attribute): equal numbers where values are equal."""
        return np.stack([codes for _, codes in self._columns.values()], axis=1)

    def as_lists(self) -> dict[str, Any]:
        """Return the different values of each attribute, and which of them each machine has, as JSON takes it."""
        return {name: [values.tolist(), codes.tolist()] for name, (values, codes) in self._columns.items()}

    def of(self, machine: int) -> dict[str, str]:
        """Return what a machine has, by attribute; empty where it has none."""
        return {name: str(values[codes[machine]]) for name, (values, codes) in self._columns.items()}

    def meeting(self, wanted: Conjunction) -> Flags:
        """Return for each machine whether it meets a conjunction."""
        eligible = np.ones(self.slots, np.bool_)
        for predicate in wanted.predicates:
            if predicate not in self._known:
                values, codes = self._columns[predicate.name]
                holds = [predicate.holds((str(value),) if value else ()) for value in values]
                self._known[predicate] = np.array(holds, np.bool_)[codes]
            eligible &= self._known[predicate]
        return eligible


@dataclass(frozen=True, slots=True)
class JobConstraints:
    """The constraints of a job.

    Attributes:
        hard: without which its tasks cannot run.
        soft: without which they run longer.
    """

    hard: Conjunction
    soft: Conjunction


ANYTHING: Final = JobConstraints(ANY, ANY)


@dataclass(frozen=True, slots=True)
class TraceConstraints:
    """Values of machines, and constraints of jobs by their places in the trace."""

    machines: Machines
    asked: Mapping[int, JobConstraints]


def eligible_of(trace: Trace, machines: Machines, constraints: Mapping[int, JobConstraints]) -> Eligible:
    """Return who may run where.

    A soft constraint that no machine meets together with the hard ones is left out.

    Args:
        trace: the jobs
        machines: in order; the first ones are in front of the long partition
        constraints: by the place of the job in the trace, as `Trace` has it

    Raises:
        UserError: no machine meets a job's hard constraints.
    """
    groups = Groups(machines.slots)
    rows: dict[Conjunction, int] = {}
    full, hard = np.zeros(len(trace), np.int32), np.zeros(len(trace), np.int32)
    constrained = np.zeros(len(trace), np.bool_)
    for job, wanted in constraints.items():
        hard[job] = _group(wanted.hard, machines, groups, rows)
        if hard[job] < 0:
            raise UserError(f"job {job}: no machine meets {wanted.hard.text()!r}; ask for less")
        both = _group(wanted.hard & wanted.soft, machines, groups, rows)
        full[job] = hard[job] if both < 0 else both
        constrained[job] = bool(wanted.hard.predicates or wanted.soft.predicates)
    return groups.eligible(full.tolist(), hard.tolist(), constrained)


def _group(wanted: Conjunction, machines: Machines, groups: Groups, rows: dict[Conjunction, int]) -> int:
    """Return the number of the group of machines that satisfy a conjunction; -1 if there is none."""
    if wanted not in rows:
        eligible = machines.meeting(wanted)
        rows[wanted] = groups.number(eligible) if eligible.any() else -1
        if len(groups.rows) * machines.slots > ELIGIBLE_BYTES_MAX:
            raise UserError(f"{len(groups.rows)} sets of machines that jobs may run on are too many; ask alike")
    return rows[wanted]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of constraint.

    Attributes:
        name: of the attribute.
        slowdown: of jobs with it (table II).
        share: of all constraints; our reading.
        values: that are asked for; each next one is met by half as many machines.
        is_least: whether the value is asked for as the least one, so that machines with a later one meet it too.
        is_soft: whether it can be given up.
    """

    name: str
    slowdown: float
    share: float
    values: tuple[str, ...]
    is_least: bool = False
    is_soft: bool = False


KINDS: Final = (
    Kind("isa", 2.03, 0.35, ("power", "arm")),
    Kind("cores", 1.90, 0.25, ("16", "32"), is_least=True),
    Kind("network_gbps", 1.91, 0.20, ("10", "25"), is_least=True, is_soft=True),
    Kind("nodes", 1.96, 0.04, ("64", "256"), is_least=True),
    Kind("max_disks", 1.90, 0.04, ("12", "24"), is_least=True),
    Kind("kernel", 1.77, 0.04, ("4.14", "5.4"), is_least=True),
    Kind("platform", 1.77, 0.04, ("b", "c")),
    Kind("clock_ghz", 1.76, 0.03, ("3.0", "3.5"), is_least=True, is_soft=True),
    Kind("min_disks", 0.91, 0.01, ("1", "2"), is_least=True),
)
"""Table II; ISA, cores and network have 80 % of constraints."""
CONSTRAINED: Final = 0.55
"""Share of tasks whose jobs have a constraint."""
MORE: Final = 0.3
"""Share of constrained jobs that have a second constraint."""
SHARE_MAX: Final = 0.95


def shares(kind: Kind, supply: float) -> list[float]:
    """Return for each value the fraction of machines that satisfy a request for it."""
    share = min(SHARE_MAX, supply / kind.slowdown)
    return [share / 2**at for at in range(len(kind.values))]


def machines(slots: int, supply: float, random: np.random.Generator) -> Machines:
    """Return machines with attributes; the number of machines that meet a value is exact."""
    columns = {kind.name: _column(kind, slots, supply, random) for kind in KINDS}
    return Machines(slots, columns)


def _column(kind: Kind, slots: int, supply: float, random: np.random.Generator) -> list[str]:
    column = ["0" if kind.is_least else "common"] * slots
    order = random.permutation(slots)
    counts = [max(1, round(share * slots)) for share in shares(kind, supply)]
    at = 0
    for value, count, above in zip(kind.values, counts, [*counts[1:], 0], strict=True):
        own = count - above if kind.is_least else count
        for machine in order[at : at + own]:
            column[machine] = value
        at += own
    return column


def asked(trace: Trace, random: np.random.Generator, constrained: float = CONSTRAINED) -> dict[int, JobConstraints]:
    """Return the constraints of jobs, by their places in the trace; so large a share of tasks has one."""
    order = random.permutation(len(trace))
    tasks = np.cumsum(trace.tasks[order])
    chosen = order[: int(np.searchsorted(tasks, constrained * tasks[-1])) + 1]
    weights = np.array([kind.share for kind in KINDS])
    return {int(job): _asked(weights / weights.sum(), random) for job in np.sort(chosen)}


def _asked(weights: npt.NDArray[np.float64], random: np.random.Generator) -> JobConstraints:
    count = 2 if random.random() < MORE else 1
    hard: list[Predicate] = []
    soft: list[Predicate] = []
    for place in random.choice(len(KINDS), size=count, replace=False, p=weights):
        kind = KINDS[int(place)]
        value = kind.values[int(random.integers(len(kind.values)))]
        predicate = Predicate(kind.name, ">=" if kind.is_least else "=", (value,))
        (soft if kind.is_soft else hard).append(predicate)
    return JobConstraints(conjunction(tuple(hard)), conjunction(tuple(soft)))


def made_for(trace: Trace, slots: int, supply: float, seed: int, constrained: float = CONSTRAINED) -> TraceConstraints:
    """Return what machines have and jobs ask for, drawn from a seed."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    have = machines(slots, supply, random)
    return TraceConstraints(have, {job: _met(one, have) for job, one in asked(trace, random, constrained).items()})


def _met(wanted: JobConstraints, have: Machines) -> JobConstraints:
    """Return a job's constraints, less one of two hard conditions that no machine of a small cluster satisfies."""
    if have.meeting(wanted.hard).any():
        return wanted
    return replace(wanted, hard=conjunction(wanted.hard.predicates[:1]))


CUTOFFS: Final = {"google": (1129.532, 83.0), "yahoo": (90.5811, 98.0), "facebook": (76.5951, 98.0)}
"""Mean duration in s above which a job is long, and the long partition in percent, by trace."""

GOOGLE: Final = "google"
FACEBOOK: Final = "facebook"
YAHOO: Final = "yahoo"
TRACES: Final = (GOOGLE, FACEBOOK, YAHOO)

SWIM: Final = SwimModel(block_mb=1024.0, reduce_mb=1024.0, mb_per_s=20.0, tasks_max=1_000)
"""Bytes to tasks: large blocks, so that a day has no more tasks than a run can bear."""

YAHOO_JOBS: Final = 10_000
YAHOO_SEED: Final = 1
YAHOO_GAP_S: Final = 8.9
YAHOO_TASKS: Final = {0.5: 15.0, 0.9: 57.0, 0.99: 725.0}
YAHOO_MEAN_S: Final = {0.1: 2.8, 0.5: 15.6, 0.9: 81.5, 0.99: 2545.0}
YAHOO_VARIATION: Final = 0.32
"""Coefficient of variation of durations inside a job."""
YAHOO_TASKS_MAX: Final = 2_000
YAHOO_MEAN_MAX_S: Final = 10_000.0
"""Our cap: published data end at the 99th percentile, and beyond it one job would be most of the work."""

SAID: Final = {
    FACEBOOK: "facebook: made. Arrivals and bytes are those of SWIM's sample of Facebook's cluster of 2010; tasks and "
    f"durations are derived by rules of this project: a map for each {SWIM.block_mb:g} MB, a reduce for each "
    f"{SWIM.reduce_mb:g} MB that is shuffled, {SWIM.mb_per_s:g} MB/s, at most {SWIM.tasks_max:,} of either in a job; "
    "maps and reduces are one bag of tasks",
    YAHOO: f"yahoo: made. {YAHOO_JOBS:,} jobs drawn from published percentiles (tasks P50, P90, P99: 15, 57, 725; mean "
    "durations P10, P50, P90, P99: 2.8, 15.6, 81.5, 2,545 s; variation inside a job 0.32; mean gap 8.9 s); nothing of "
    "it was recorded on a cluster",
}
"""What a reader must know of a trace that is made."""


def trace_named(name: str, tell: Callable[[str], None] = lambda _: None) -> Trace:
    """Return one of `TRACES`, with its cutoff and partition.

    Args:
        name: its name
        tell: receives a line about the data that is read

    Raises:
        UserError: its data is missing.
    """
    if name == YAHOO:
        return yahoo()
    if name == FACEBOOK:
        return facebook(given_or_default(None, FACEBOOK_2010, tell))
    return _with_cutoff(google_trace(given_or_default(None, GOOGLE_2011, tell)))


def _with_cutoff(trace: Trace) -> Trace:
    cutoff_s, percent = CUTOFFS[trace.name]
    return replace(trace, cutoff_s=cutoff_s, long_percent=percent)


def facebook(sample: Path) -> Trace:
    """Return jobs of one of SWIM's samples as bags of tasks.

    Raises:
        WorkloadError: a line is wrong, with its number and field.
    """
    arrival_s, durations = [], []
    for job in swim_jobs(sample):
        stages = SWIM.stages(job, {})
        arrival_s.append(job.submit_ms / 1000)
        durations.append(np.repeat([stage.duration_ms / 1000 for stage in stages], [stage.tasks for stage in stages]))
    return _with_cutoff(trace_of(FACEBOOK, arrival_s, durations))


def yahoo(jobs: int = YAHOO_JOBS, seed: int = YAHOO_SEED) -> Trace:
    """Return jobs drawn from published properties of Yahoo's trace; equal seeds give equal jobs."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 3]))
    arrival_s = np.cumsum(random.exponential(YAHOO_GAP_S, jobs)) - YAHOO_GAP_S
    tasks = np.clip(np.rint(between(YAHOO_TASKS, random.random(jobs))), 1, YAHOO_TASKS_MAX).astype(np.int64)
    mean_s = np.clip(between(YAHOO_MEAN_S, random.random(jobs)), 1.0, YAHOO_MEAN_MAX_S)
    sigma = float(np.sqrt(np.log1p(YAHOO_VARIATION**2)))
    factors = random.lognormal(-(sigma**2) / 2, sigma, int(tasks.sum()))
    # a task that is cut to 0 s would be none
    durations = np.split(np.maximum(1.0, np.repeat(mean_s, tasks) * factors), np.cumsum(tasks)[:-1])
    return _with_cutoff(trace_of(YAHOO, (arrival_s - arrival_s[0]).tolist(), durations))


def between(known: Mapping[float, float], shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return quantiles of a distribution from some known ones.

    Logarithms are interpolated over the normal distribution's quantiles, so that two known ones make it log-normal;
    beyond the last it goes on as it came.
    """
    normal = NormalDist()
    at = np.array([normal.inv_cdf(share) for share in known])
    logs = np.log(np.array(list(known.values())))
    z = np.array([normal.inv_cdf(min(max(share, 1e-12), 1 - 1e-12)) for share in shares])
    found = np.interp(z, at, logs)
    first, last = (logs[1] - logs[0]) / (at[1] - at[0]), (logs[-1] - logs[-2]) / (at[-1] - at[-2])
    found = np.where(z < at[0], logs[0] + first * (z - at[0]), found)
    found = np.where(z > at[-1], logs[-1] + last * (z - at[-1]), found)
    return np.asarray(np.exp(found))

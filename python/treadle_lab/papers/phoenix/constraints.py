"""Traces of jobs, and machines and constraints: read from files, or made."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.constraints import ANY, Conjunction, ExpressionError, Predicate, conjunction, parse
from treadle.errors import UserError
from treadle.workload.clusters import SwimModel, swim_jobs
from treadle_lab.models.worker_state import Trace, read_trace, trace_of
from treadle_lab.models.workers import Eligible, Groups

CONSTRAINTS_HEADER: Final = ("job", "hard", "soft")
MACHINES_MAX: Final = 1_000_000
ELIGIBLE_BYTES_MAX: Final = 2_000_000_000
MACHINES_REMEDY: Final = "the header is machine,ATTRIBUTE,..., then a line for each machine, such as m0,x86,16"
CONSTRAINTS_REMEDY: Final = (
    "a line is job,hard,soft, such as 0,isa=x86&cores>=8,kernel>=4.14; job is the trace's line from 0"
)

Flags = npt.NDArray[np.bool_]


class Machines:
    """What machines have, by attribute.

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

    def __contains__(self, name: str) -> bool:
        """Whether machines may have an attribute of that name."""
        return name in self._columns

    def meeting(self, wanted: Conjunction) -> Flags:
        """Return for each machine whether it meets a conjunction."""
        found = np.ones(self.slots, np.bool_)
        for predicate in wanted.predicates:
            if predicate not in self._known:
                values, codes = self._columns[predicate.name]
                holds = [predicate.holds((str(value),) if value else ()) for value in values]
                self._known[predicate] = np.array(holds, np.bool_)[codes]
            found &= self._known[predicate]
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job asks for.

    Attributes:
        hard: without which its tasks cannot run.
        soft: without which they run longer.
        where: the line that names it; empty if it was generated.
    """

    hard: Conjunction
    soft: Conjunction
    where: str = ""


ANYTHING: Final = Asked(ANY, ANY)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What machines have, and what jobs ask for by their places in the trace."""

    machines: Machines
    asked: Mapping[int, Asked]


def read_machines(file: Path) -> Machines:
    """Read machines: the columns after the name are attributes; an empty cell is an attribute that is not there.

    Raises:
        UserError: what is wrong, with file, line and remedy.
    """
    rows = _rows("--machines", file)
    where, header = next(rows, (str(file), []))
    names = [name.strip().lower() for name in header]
    if len(names) < 2 or names[0] != "machine" or not all(names):
        raise UserError(f"{where}: the header is {','.join(header)[:80]!r}; {MACHINES_REMEDY}")
    if len(set(names)) < len(names):
        raise UserError(f"{where}: a column is there twice; give each attribute one column")
    found: list[list[str]] = []
    known: set[str] = set()
    for where, row in rows:
        if len(row) != len(names):
            raise UserError(f"{where}: {len(row)} columns where the header has {len(names)}; {MACHINES_REMEDY}")
        name = row[0].strip()
        if not name or name in known:
            raise UserError(f"{where}: machine {name!r} {'is there twice' if name else 'has no name'}; name each once")
        known.add(name)
        found.append([cell.strip() for cell in row[1:]])
        if len(found) > MACHINES_MAX:
            raise UserError(f"{where}: more than {MACHINES_MAX} machines; leave some out")
    if not found:
        raise UserError(f"--machines: {file} has no machine; {MACHINES_REMEDY}")
    return Machines(len(found), dict(zip(names[1:], zip(*found, strict=True), strict=True)))


def read_constraints(file: Path, jobs: int) -> dict[int, Asked]:
    """Read what jobs ask for, by the line of the trace that the job is in, from 0.

    Raises:
        UserError: what is wrong, with file, line and remedy.
    """
    rows = _rows("--constraints", file)
    where, header = next(rows, (str(file), []))
    if tuple(name.strip().lower() for name in header) != CONSTRAINTS_HEADER:
        raise UserError(f"{where}: the header is {','.join(header)[:80]!r}; it must be job,hard,soft")
    found: dict[int, Asked] = {}
    for where, row in rows:
        if len(row) != len(CONSTRAINTS_HEADER):
            raise UserError(f"{where}: {len(row)} columns; {CONSTRAINTS_REMEDY}")
        job = int(row[0]) if row[0].strip().isdecimal() else -1
        if not 0 <= job < jobs:
            raise UserError(f"{where}: job is {row[0].strip()[:40]!r}; it must be a line of the trace, 0 to {jobs - 1}")
        if job in found:
            raise UserError(f"{where}: job {job} is there twice; join its conditions by & in one line")
        found[job] = Asked(_expression(where, "hard", row[1]), _expression(where, "soft", row[2]), where)
    return found


def _expression(where: str, field: str, text: str) -> Conjunction:
    try:
        return parse(text, "&") if text.strip() else ANY
    except ExpressionError as error:
        raise UserError(
            f"{where}: {field}: {str(error).replace('join conditions by ;', 'join conditions by &')}"
        ) from None


def _rows(option: str, file: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the rows of a CSV that are not empty, each with the words for its place."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = csv.reader(stream, strict=True)
            for row in rows:
                if any(cell.strip() for cell in row):
                    yield f"{file}, line {rows.line_num}", row
    except OSError as error:
        raise UserError(f"{option}: {file}: {error.strerror}; name a CSV file") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{option}: {file} is no CSV in UTF-8: {error}; write it as comma-separated text") from None


def places_of(trace: Trace, asked: Mapping[int, Asked]) -> dict[int, Asked]:
    """Return constraints by the place of the job in the trace, which is in order of arrival, not of lines."""
    return {place: asked[int(line)] for place, line in enumerate(trace.line) if int(line) in asked}


def eligible_of(trace: Trace, machines: Machines, asked: Mapping[int, Asked]) -> Eligible:
    """Return who may run where.

    A soft constraint that no machine meets together with the hard ones is left out.

    Args:
        trace: the jobs
        machines: in order; the first ones are in front of the long partition
        asked: by the place of the job in the trace, as `Trace` has it

    Raises:
        UserError: no machine meets a job's hard constraints, or nobody has an attribute that is asked for.
    """
    groups = Groups(machines.slots)
    rows: dict[Conjunction, int] = {}
    full, hard = np.zeros(len(trace), np.int32), np.zeros(len(trace), np.int32)
    constrained = np.zeros(len(trace), np.bool_)
    for job, wanted in asked.items():
        for one in (*wanted.hard.predicates, *wanted.soft.predicates):
            if one.name not in machines:
                raise UserError(
                    f"{wanted.where}: no machine has the attribute {one.name!r}; name a column of the machines' file"
                )
        hard[job] = _group(wanted.hard, machines, groups, rows)
        if hard[job] < 0:
            raise UserError(f"{wanted.where}: hard: no machine meets {wanted.hard.text()!r}; ask for less")
        both = _group(wanted.hard & wanted.soft, machines, groups, rows)
        full[job] = hard[job] if both < 0 else both
        constrained[job] = bool(wanted.hard.predicates or wanted.soft.predicates)
    return groups.eligible(full.tolist(), hard.tolist(), constrained)


def _group(wanted: Conjunction, machines: Machines, groups: Groups, rows: dict[Conjunction, int]) -> int:
    """Return the number of the group of machines that meet a conjunction; -1 if there is none."""
    if wanted not in rows:
        found = machines.meeting(wanted)
        rows[wanted] = groups.number(found) if found.any() else -1
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
    """Return for each value the share of machines that meet it when asked for."""
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


def asked(trace: Trace, random: np.random.Generator, constrained: float = CONSTRAINED) -> dict[int, Asked]:
    """Return the constraints of jobs, by their places in the trace; so large a share of tasks has one."""
    order = random.permutation(len(trace))
    tasks = np.cumsum(trace.tasks[order])
    chosen = order[: int(np.searchsorted(tasks, constrained * tasks[-1])) + 1]
    weights = np.array([kind.share for kind in KINDS])
    return {int(job): _asked(weights / weights.sum(), random) for job in np.sort(chosen)}


def _asked(weights: npt.NDArray[np.float64], random: np.random.Generator) -> Asked:
    count = 2 if random.random() < MORE else 1
    hard: list[Predicate] = []
    soft: list[Predicate] = []
    for place in random.choice(len(KINDS), size=count, replace=False, p=weights):
        kind = KINDS[int(place)]
        value = kind.values[int(random.integers(len(kind.values)))]
        predicate = Predicate(kind.name, ">=" if kind.is_least else "=", (value,))
        (soft if kind.is_soft else hard).append(predicate)
    return Asked(conjunction(tuple(hard)), conjunction(tuple(soft)))


def made_for(trace: Trace, slots: int, supply: float, seed: int, constrained: float = CONSTRAINED) -> Wanted:
    """Return what machines have and jobs ask for, drawn from a seed."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    have = machines(slots, supply, random)
    return Wanted(have, {job: _met(one, have) for job, one in asked(trace, random, constrained).items()})


def _met(wanted: Asked, have: Machines) -> Asked:
    """Return what a job asks for, with one hard condition left of two that no machine of a small cluster meets."""
    if have.meeting(wanted.hard).any():
        return wanted
    return replace(wanted, hard=conjunction(wanted.hard.predicates[:1]))


CUTOFFS: Final = {"google": (1129.532, 83.0), "yahoo": (90.5811, 98.0), "facebook": (76.5951, 98.0)}
"""Mean duration in s above which a job is long, and the long partition in percent, by how a trace's name begins."""

GOOGLE: Final = "google"
FACEBOOK: Final = "facebook"
YAHOO: Final = "yahoo"

SWIM: Final = SwimModel(block_mb=1024.0, reduce_mb=1024.0, mb_per_s=20.0, tasks_max=1_000)
"""Bytes to tasks: large blocks, so that a day has no more tasks than a run can bear."""

YAHOO_JOBS: Final = 10_000
YAHOO_SEED: Final = 1
YAHOO_GAP_S: Final = 8.9
YAHOO_TASKS: Final = {0.5: 15.0, 0.9: 57.0, 0.99: 725.0}
YAHOO_MEAN_S: Final = {0.1: 2.8, 0.5: 15.6, 0.9: 81.5, 0.99: 2545.0}
YAHOO_VARIATION: Final = 0.32
"""Of durations inside a job: standard deviation over mean."""
YAHOO_TASKS_MAX: Final = 2_000
YAHOO_MEAN_MAX_S: Final = 10_000.0
"""Bounds of ours: what is known ends at the 99th percentile, and beyond it one job would be most of the work."""

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


def any_trace(path: Path) -> Trace:
    """Read a trace, with the cutoff and the partition that its name has; Google's if it has none."""
    return _with_cutoff(read_trace(path))


def trace_named(name: str, google: Path | None, sample: Path | None) -> Trace | None:
    """Return a trace: `google`, `facebook`, `yahoo`, or the path of one.

    Args:
        name: which
        google: the folder of the extract of Google's trace, if it is there
        sample: SWIM's sample, if it is there

    Returns:
        None if what it is made of is not there.

    Raises:
        UserError: a file is wrong, with its line.
    """
    if name == YAHOO:
        return yahoo()
    if name == FACEBOOK:
        return None if sample is None else facebook(sample)
    if name == GOOGLE:
        return None if google is None else any_trace(google)
    return any_trace(Path(name))


def _with_cutoff(trace: Trace) -> Trace:
    cutoff_s, percent = next(
        (found for name, found in CUTOFFS.items() if trace.name.startswith(name)), CUTOFFS["google"]
    )
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
    """Return jobs drawn from what is published of Yahoo's trace; equal seeds give equal jobs."""
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
    """Return quantiles of a distribution of which some are known.

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

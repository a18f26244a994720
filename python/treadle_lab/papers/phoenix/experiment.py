"""Phoenix: systems on a trace with calibrated constraints; ratios and slowdowns, the original simulator, plots."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.constraints import Conjunction, Predicate, conjunction
from treadle.errors import UserError, percent
from treadle_lab.models.kernels import Progress, on_all_cores
from treadle_lab.models.worker_state import Trace
from treadle_lab.models.workers import RELAXED_SLOWDOWN, SYSTEMS, Eligible, Groups, Outcome, simulate_workers, warm_up
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import RATIO, Layout, Results, Row, Table

Flags = npt.NDArray[np.bool_]
ELIGIBLE_BYTES_MAX: Final = 2_000_000_000


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


@dataclass(frozen=True, slots=True)
class TraceConstraints:
    """Values of machines, and constraints of jobs by their places in the trace."""

    machines: Machines
    asked: Mapping[int, JobConstraints]


def eligible_of(trace: Trace, wanted: TraceConstraints) -> Eligible:
    """Return who may run where.

    A soft constraint that no machine meets together with the hard ones is left out.

    Args:
        trace: the jobs
        wanted: of them; the first machines are in front of the long partition

    Raises:
        UserError: no machine meets a job's hard constraints.
    """
    machines = wanted.machines
    groups = Groups(machines.slots)
    rows: dict[Conjunction, int] = {}
    full, hard = np.zeros(len(trace), np.int32), np.zeros(len(trace), np.int32)
    constrained = np.zeros(len(trace), np.bool_)
    for job, own in wanted.asked.items():
        hard[job] = _group(own.hard, machines, groups, rows)
        if hard[job] < 0:
            raise UserError(f"job {job}: no machine meets {own.hard.text()!r}; ask for less")
        both = _group(own.hard & own.soft, machines, groups, rows)
        full[job] = hard[job] if both < 0 else both
        constrained[job] = bool(own.hard.predicates or own.soft.predicates)
    return Eligible(np.array(groups.rows), full, hard, constrained)


def _group(wanted: Conjunction, machines: Machines, groups: Groups, rows: dict[Conjunction, int]) -> int:
    """Return the number of the group of machines that satisfy a conjunction; -1 if there is none."""
    if wanted not in rows:
        eligible = machines.meeting(wanted)
        rows[wanted] = groups.number(eligible) if eligible.any() else -1
        if len(groups.rows) * machines.slots > ELIGIBLE_BYTES_MAX:
            raise UserError(
                f"{len(groups.rows)} sets of machines that jobs may run on are too many; give jobs equal requirements"
            )
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
SUPPLY: Final = 0.585
"""By calibration: the share of machines that meet a constraint is this over the kind's slowdown.

So the P99 of short jobs under Eagle-C over that under Eagle (section III-B) is 1.74, with seeds 1 to 10, 15,000 workers
and arrival times that were divided by 1.7 for a load of 81 %; the paper's is 1.7."""


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


def asked(trace: Trace, random: np.random.Generator) -> dict[int, JobConstraints]:
    """Return the constraints of jobs, by their places in the trace; `CONSTRAINED` of all tasks have one."""
    order = random.permutation(len(trace))
    tasks = np.cumsum(trace.tasks[order])
    chosen = order[: int(np.searchsorted(tasks, CONSTRAINED * tasks[-1])) + 1]
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


def made_for(trace: Trace, slots: int, seed: int, supply: float = SUPPLY) -> TraceConstraints:
    """Return what machines have and jobs ask for, drawn from a seed."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    have = machines(slots, supply, random)
    return TraceConstraints(have, {job: _met(one, have) for job, one in asked(trace, random).items()})


def _met(wanted: JobConstraints, have: Machines) -> JobConstraints:
    """Return a job's constraints, less one of two hard conditions that no machine of a small cluster satisfies."""
    if have.meeting(wanted.hard).any():
        return wanted
    return replace(wanted, hard=conjunction(wanted.hard.predicates[:1]))


ClassRow = dict[str, Any]
"""A class of jobs of a run."""

CLASSES: Final = ("short", "long", "short-constrained", "short-unconstrained")


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """The setup of runs.

    Attributes:
        trace: the jobs, with `faster` in it.
        slots: number of workers.
        faster: divisor of arrival times.
        wanted: properties of machines and constraints of jobs, by seed; the same for every system.
        relaxed_slowdown: slowdown of a task where a soft constraint of it is not met.
    """

    trace: Trace
    slots: int
    faster: float
    wanted: Callable[[int], TraceConstraints]
    relaxed_slowdown: float = RELAXED_SLOWDOWN


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One system with one seed.

    Attributes:
        system: its name.
        seed: of constraints and draws.
        rows: a row of figures for each class of jobs that there is.
        response_s: of each job.
        outcome: of each job and task, of the first seed alone.
    """

    system: str
    seed: int
    rows: Sequence[ClassRow]
    response_s: npt.NDArray[np.float64] = field(repr=False)
    outcome: Outcome | None = field(default=None, repr=False)

    def figure(self, name: str, figure: str) -> float | None:
        """Return a figure of a class; None if no job is of that class."""
        found = next((row[figure] for row in self.rows if row["class"] == name), None)
        return None if found is None else float(found)


def classes(trace: Trace, constrained: Flags) -> Mapping[str, Flags]:
    """Return which jobs are of each class."""
    short = ~trace.is_long
    return dict(zip(CLASSES, (short, ~short, short & constrained, short & ~constrained), strict=True))


def run_systems(
    names: Sequence[str], setup: Setup, seeds: Sequence[int], progress: Progress | None = None
) -> list[Run]:
    """Run each system with each seed, which gives the same constraints for all systems.

    Args:
        names: of systems
        setup: the setup
        seeds: of constraints and draws
        progress: called with the runs that have ended

    Returns:
        Runs by system, then seed.
    """
    eligible = lru_cache(maxsize=4)(lambda seed: eligible_of(setup.trace, setup.wanted(seed)))
    wanted = [(seed, name) for seed in seeds for name in names]
    warm_up()
    done = on_all_cores(lambda one: _run(setup, eligible(one[0]), *one, keep=one[0] == seeds[0]), wanted, progress)
    found = {(run.system, run.seed): run for run in done}
    return [found[name, seed] for name in names for seed in seeds]


def _run(setup: Setup, eligible: Eligible, seed: int, name: str, *, keep: bool) -> Run:
    """Return a run with a row for each class of jobs that there is."""
    slowdown = setup.relaxed_slowdown
    outcome = simulate_workers(SYSTEMS[name], setup.trace, setup.slots, eligible, seed=seed, relaxed_slowdown=slowdown)
    trace = setup.trace
    load = trace.offered_load(setup.slots)
    rows: list[ClassRow] = []
    for kind, jobs in classes(trace, eligible.constrained).items():
        if not jobs.any():
            continue
        p50, p90, p99 = np.percentile(outcome.response_s[jobs], [50, 90, 99])
        queued_s = outcome.queued_s[np.repeat(jobs, trace.tasks)]
        rows.append(
            {
                "system": name,
                "trace": trace.name,
                "slots": setup.slots,
                "faster": setup.faster,
                "seed": seed,
                "class": kind,
                "jobs": int(jobs.sum()),
                "mean_s": float(outcome.response_s[jobs].mean()),
                "p50_s": float(p50),
                "p90_s": float(p90),
                "p99_s": float(p99),
                "queueing_p99_s": float(np.percentile(queued_s, 99)),
                "offered_load": load,
                "relaxed": int(outcome.relaxed[jobs].sum()),
                "reordered": int(outcome.reordered[jobs].sum()),
                "cpu_s": round(outcome.cpu_s, 3),
            }
        )
    return Run(name, seed, rows, outcome.response_s, outcome if keep else None)


COLUMNS: Final = ("system", "slots", "class", "jobs", "mean_s", "p50_s", "p90_s", "p99_s")
REFERENCE_FIGURES: Final = ("mean_s", "p50_s", "p90_s", "p99_s")
TOLERANCES: Final = {
    "short": {"mean_s": 0.04, "p50_s": 0.04, "p90_s": 0.04, "p99_s": 0.07},
    "long": {"mean_s": 0.02, "p50_s": 0.04, "p90_s": 0.04},
}
"""Shares that a figure may be off. The P99 of long jobs has two modes, 22 % apart, and is not judged."""
Figures = dict[tuple[str, int, str, int], dict[str, float]]
"""By system, slots, class and number of jobs."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure here, mean over seeds, and the original's."""

    system: str
    slots: int
    kind: str
    figure: str
    here: float
    original: float
    tolerance: float

    @property
    def off(self) -> float:
        """By which share the figure here is larger."""
        return self.here / self.original - 1

    @property
    def within(self) -> bool:
        """Whether that is tolerated."""
        return abs(self.off) <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        """Return it for results."""
        return {**asdict(self), "off": self.off, "within": self.within}


def read_reference(file: Path) -> Figures:
    """Read a file of figures.

    Raises:
        UserError: the file is none.
    """
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            return {
                (row["system"], int(row["slots"]), row["class"], int(row["jobs"])): {
                    figure: float(row[figure]) for figure in REFERENCE_FIGURES
                }
                for row in csv.DictReader(stream)
            }
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file}: no table of {','.join(COLUMNS)} ({error}); fetch it again") from None


def compare(runs: Sequence[Run], originals: Figures) -> list[Comparison]:
    """Compare the means over seeds with the original's, where it ran the same."""
    comparisons = []
    for system in dict.fromkeys(run.system for run in runs):
        own = [run for run in runs if run.system == system]
        for row in own[0].rows:
            kind, slots, jobs = str(row["class"]), int(row["slots"] or 0), int(row["jobs"] or 0)
            original = originals.get((system, slots, kind, jobs))
            if original is None or row["faster"] != 1.0:
                continue
            for figure, tolerance in TOLERANCES[kind].items():
                here = float(np.mean([run.figure(kind, figure) for run in own]))
                comparisons.append(Comparison(system, slots, kind, figure, here, original[figure], tolerance))
    return comparisons


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of one system over another's."""

    above: str
    under: str
    kind: str
    """Kind of jobs."""
    figure: str
    """A column of runs."""
    paper: float | None = None
    """The paper's value; None without one."""
    most: float | None = None
    """The upper end, where it says a range."""

    @property
    def name(self) -> str:
        """The name in results."""
        upper = "" if self.most is None else f" (the paper's up to {self.most:g})"
        return f"{self.above}/{self.under} {self.kind} {self.figure}{upper}"


CLAIMS: Final = (
    Claim("eagle-c", "phoenix", "short", "p99_s", 1.9),
    Claim("eagle-c", "phoenix", "short-constrained", "p99_s"),
    Claim("eagle-c", "phoenix", "short-unconstrained", "p99_s", 1.0),
    Claim("eagle-c", "phoenix", "short", "p90_s"),
    Claim("eagle-c", "phoenix", "long", "mean_s", 1.0),
    Claim("eagle-c", "phoenix", "long", "p90_s", 1.0),
    Claim("hawk-c", "phoenix", "short", "p90_s", 4.5),
    Claim("hawk-c", "phoenix", "short", "p99_s", 5.0),
    *(
        Claim("eagle-c", "one-queue-srpt-c", kind, figure)
        for kind, figure in (
            ("short", "p99_s"),
            ("short-constrained", "p99_s"),
            ("short-unconstrained", "p99_s"),
            ("long", "mean_s"),
            ("long", "p90_s"),
        )
    ),
    Claim("eagle-c", "eagle", "short", "p99_s", 1.7),
    Claim("eagle-c", "eagle", "short", "queueing_p99_s", 2.0, 2.5),
    Claim("hawk-c", "hawk", "short", "p99_s", 20.0),
    Claim("sparrow-c", "sparrow", "short", "p99_s", 20.0),
    *(
        Claim(f"phoenix-without-{part}", "phoenix", kind, "p99_s")
        for part in ("order", "gate", "scarcity", "negotiation")
        for kind in ("short", "short-constrained")
    ),
)


def ratios_of(runs: Sequence[Run], claims: Sequence[Claim] = CLAIMS) -> Iterator[Row]:
    """Yield the ratios of systems that were both run."""
    by_run = {(run.system, run.seed): run for run in runs}
    for claim in claims:
        for (system, seed), run in by_run.items():
            other = by_run.get((claim.under, seed)) if system == claim.above else None
            above = run.figure(claim.kind, claim.figure)
            under = None if other is None else other.figure(claim.kind, claim.figure)
            if above and under:
                yield Row("here", claim.name, "", seed, above / under, RATIO, claim.paper)


SYSTEM: Final = "eagle-c"
WITHOUT: Final = "eagle"
PAPER: Final[Mapping[str, float]] = {kind.name: kind.slowdown for kind in KINDS}


def slowdowns_of(runs: Sequence[Run], setup: Setup) -> list[Row]:
    """Return the slowdown by kind of constraint, of jobs that have constraints of one kind alone.

    That is the mean response time with constraints over that without: none unless Eagle was run with and without.
    """
    response_s = {(run.system, run.seed): run.response_s for run in runs if run.system in (SYSTEM, WITHOUT)}
    rows = []
    for seed in (seed for system, seed in response_s if system == SYSTEM and (WITHOUT, seed) in response_s):
        with_s, without_s = response_s[SYSTEM, seed], response_s[WITHOUT, seed]
        for kind, jobs in _jobs_by_kind(setup, seed).items():
            longer = float(with_s[jobs].mean() / without_s[jobs].mean())
            rows.append(Row("jobs", kind, "", seed, len(jobs), "1"))
            rows.append(Row("here", kind, "", seed, longer, RATIO, PAPER.get(kind)))
    order = [*PAPER, *sorted({row.series for row in rows} - set(PAPER))]
    return sorted(rows, key=lambda row: order.index(row.series))


def _jobs_by_kind(setup: Setup, seed: int) -> dict[str, list[int]]:
    """Return the places of jobs that have constraints of one kind alone, by kind."""
    found: dict[str, list[int]] = {}
    for place, asked in setup.wanted(seed).asked.items():
        kinds = {one.name for one in (*asked.hard.predicates, *asked.soft.predicates)}
        if len(kinds) == 1:
            found.setdefault(kinds.pop(), []).append(place)
    return found


SHOWN: Final = ("jobs", "mean_s", "p50_s", "p90_s", "p99_s", "queueing_p99_s", "relaxed")
"""Fields of runs that are shown."""


def results_of(runs: Sequence[Run], comparisons: Sequence[Comparison], setup: Setup) -> Results:
    """Return all results; equal seeds give equal documents except for `cpu_s` of runs.

    Args:
        runs: by system, then seed
        comparisons: with the original simulator's runs
        setup: the setup of the runs
    """
    rows = [row for run in runs for row in run.rows]
    first = rows[0]
    of = f"{first['trace']}, {first['slots']:,} workers, load {percent(first['offered_load'])}"
    layouts = {
        "phoenix-runs": Layout(f"{of}; means over seeds", ("system", "class")),
        "phoenix-ratios": Layout("Ratios, geometric means over seeds", ("ratio",)),
        "phoenix-slowdowns": Layout(
            "Mean response time of jobs with one constraint, Eagle-C over Eagle, by its kind", ("kind",)
        ),
    }
    found = {
        "phoenix-runs": [
            Row(name, str(row["class"]), str(row["system"]), int(row["seed"] or 0), float(row[name] or 0), "s")
            for row in rows
            for name in SHOWN
        ],
        "phoenix-ratios": list(ratios_of(runs)),
        "phoenix-slowdowns": slowdowns_of(runs, setup),
    }
    facts = {"runs": [dict(row) for row in rows], "reference": [one.as_json() for one in comparisons]}
    return Results(layouts, found, facts, {"phoenix-original": comparison_table(comparisons)})


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Return the figures together with the original simulator's."""
    rows = []
    for one in comparisons:
        allowed = (percent(one.off, "+.1f"), percent(one.tolerance), "" if one.within else "OUTSIDE")
        rows.append((one.system, one.kind, one.figure, one.here, one.original, *allowed))
    heading = ("system", "class", "figure", "here", "original", "off", "allowed", "")
    return Table("Beside the original simulator, means over seeds", heading, rows, 3)


def plot_phoenix(runs: Sequence[Run], setup: Setup, folder: Path) -> list[Path]:
    """Draw the plots that the runs allow; return the files."""
    first = [run for run in runs if run.outcome is not None]
    row = runs[0].rows[0]
    where = f"{row['trace']}, {setup.slots:,} workers, load {percent(row['offered_load'])}"
    drawn = {
        "figure-2": ("Phoenix, figure 2: time that short tasks wait", [_queueing(first, setup)]),
        "figure-4": ("Phoenix, figure 4: P99 of response times", [_responses(runs)]),
    }
    return [
        panels(shown, folder / f"phoenix-{name}.png", f"{title}; {where}") for name, (title, shown) in drawn.items()
    ]


def _queueing(runs: Sequence[Run], setup: Setup) -> Panel:
    """Return the share of short tasks that waited at most so long."""
    short = np.repeat(~setup.trace.is_long, setup.trace.tasks)
    waits = {run.system: share_up_to(run.outcome.queued_s[short]) for run in runs if run.outcome is not None}
    return Panel(waits, "time from a job's arrival to a task's start (s)", "share of short tasks", x_range=(0, 3000))


def _responses(runs: Sequence[Run]) -> Panel:
    """Return the P99 of each system, by class of jobs."""
    systems = list(dict.fromkeys(run.system for run in runs))
    found = {
        kind: Line(
            systems, [_mean([run.figure(kind, "p99_s") for run in runs if run.system == name]) for name in systems]
        )
        for kind in CLASSES
    }
    return Panel(found, "", "P99 (s)", scales=("linear", "log"))


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")

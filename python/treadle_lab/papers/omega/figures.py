"""Omega's figures: their points, rows and tables, and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from treadle.policy.mapreduce import WorkerPolicy
from treadle_lab.models.cell import SAMPLE_S, JobKind, Outcome
from treadle_lab.papers.omega.points import TOLERANCES, Comparison, Point, Run
from treadle_lab.papers.omega.specialist import SETTINGS, Setting, SpecialistRun, runs_under, summary
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import SPLIT, Layout, Results, Row, Table

_T_JOB_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_T_TASK_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0)
_PATHS = ("mono1", "mono2", "omega")  # monolithic with one path or two, shared state
_MODES = ("omega", "omega-seq", "omega-aon", "omega-seq-aon")  # coarse conflict detection, gang commits
_T_JOB_QUICK_S = (0.1, 1.0, 10.0, 100.0)
_T_JOB_BATCH_S = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0)
_RATE_FACTORS = tuple(map(float, range(1, 11)))
_SURFACE = ("mono1", "mono2", "mesos", "omega", "omega-seq-aon")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper."""

    title: str
    points: tuple[Point, ...]
    quick: tuple[Point, ...]
    """The points of `--quick`."""


def points_of(names: Iterable[str], machines: int, **levels: Sequence[float]) -> tuple[Point, ...]:
    """Return a point for each architecture and each combination of levels."""
    combinations = [dict(zip(levels, values, strict=True)) for values in product(*levels.values())]
    return tuple(Point(name, machines, **each) for name in names for each in combinations)


def sweeps(machines: int, large: int, factors: tuple[float, ...] = _RATE_FACTORS) -> dict[str, Figure]:
    """Return the figures of a workload by number.

    Args:
        machines: number of machines of the cell
        large: number of machines for sweeps of rates and of batch decision times, which need more room
        factors: rates of batch jobs
    """

    def jobs(names: Sequence[str], t_job_s: Sequence[float]) -> tuple[Point, ...]:
        return points_of(names, machines, t_job_service_s=t_job_s)

    def rates(copies: Sequence[int], factors: Sequence[float]) -> tuple[Point, ...]:
        return points_of(
            ["omega" if count == 1 else f"omega{count}" for count in copies], large, batch_rate_factor=factors
        )

    def surface(t_job_s: Sequence[float], t_task_s: Sequence[float]) -> tuple[Point, ...]:
        return points_of(_SURFACE, machines, t_job_service_s=t_job_s, t_task_service_s=t_task_s)

    def balanced(t_job_s: Sequence[float]) -> tuple[Point, ...]:
        return points_of(("omega", "omega3"), large, t_job_batch_s=t_job_s)

    whole_and_quick = {
        "5": ("wait against t_job", jobs(_PATHS, _T_JOB_S), jobs(_PATHS, _T_JOB_QUICK_S)),
        "6": ("busyness against t_job", jobs(_PATHS, _T_JOB_S), jobs(_PATHS, _T_JOB_QUICK_S)),
        "7": ("two levels (Mesos)", jobs(("mesos",), _T_JOB_S), jobs(("mesos",), _T_JOB_QUICK_S)),
        "8": (
            "rate of batch jobs, 1 to 32 batch schedulers",
            rates((1, 2, 4, 8, 16, 32), factors),
            rates((1, 4), (1.0, 4.0, 10.0)),
        ),
        "10": (
            "busyness against t_job and t_task",
            surface(_T_JOB_S, _T_TASK_S),
            surface((0.1, 10.0), (0.005, 0.5)),
        ),
        "13": ("batch jobs dealt among three schedulers", balanced(_T_JOB_BATCH_S), balanced((4.0, 10.0, 20.0, 30.0))),
        "14": ("coarse conflicts, gang transactions", jobs(_MODES, _T_JOB_S[:-2]), jobs(_MODES, (10.0,))),
    }
    return {number: Figure(*each) for number, each in whole_and_quick.items()}


FIGURES: Final = sweeps(500, 5_000)
"""Sweeps of the original simulator's workload; at ten times the rate its batch jobs do not fit on 500 machines."""
GOOGLE_FIGURES: Final = sweeps(12_500, 12_500, (*_RATE_FACTORS, 16.0, 24.0, 32.0))


LAYOUTS: Final = {
    "omega-points": Layout(
        "Means over seeds", ("architecture", "machines", "rate", "t_job", "t_task", "t_job of batch", "scheduler")
    )
}
SPECIALIST: Final = {
    "jobs": "jobs",
    "can_gain": "can gain",
    "gain": "gain",
    "speedup_p50_of_those_that_can": "50 %",
    "speedup_p80_of_those_that_can": "80 %",
    "speedup_p80": "80 % of all",
    "used_mean": "CPU",
    "used_sd": "sd",
    "used_max": "most",
    "conflict_fraction": "conflicts",
}
"""The figures of `summary` that are shown, and their headings."""


def results_of(
    runs: Sequence[Run], comparisons: Sequence[Comparison], specialist: Sequence[SpecialistRun], wall_s: float
) -> Results:
    """Return the results of points, compared with the original simulator's, and of figures 15 and 16."""
    jobs = summary(specialist)
    others = {
        "omega-specialist": Table(
            "MapReduce jobs with workers by policy (figures 15 and 16)",
            ("cluster", "policy", *SPECIALIST.values()),
            [(row["cluster"], row["policy"], *(row[name] for name in SPECIALIST)) for row in jobs],
            2,
        ),
    }
    facts = {
        "runs": [{"seed": run.seed, **asdict(run.point), **row} for run in runs for row in run.rows()],
        "reference": [one.as_json() for one in comparisons],
        "within": float(np.mean([one.within for one in comparisons])) if comparisons else 1.0,
        "wall_s": wall_s,
        "specialist": jobs,
    }
    return Results(LAYOUTS, {"omega-points": [row for run in runs for row in _rows(run)]}, facts, others)


def _rows(run: Run) -> Iterator[Row]:
    settings = (value if isinstance(value, str) else f"{value:g}" for value in asdict(run.point).values())
    x = SPLIT.join(settings)
    for row in run.rows():
        for figure in TOLERANCES:
            unit = "s" if figure.endswith("_s") else "1"
            yield Row(figure, str(row["scheduler"]), x, run.seed, float(row[figure]), unit)


Outcomes = Mapping[Point, list[Outcome]]
Measure = Callable[[Sequence[Outcome]], float]


def outcomes_of(runs: Sequence[Run]) -> dict[Point, list[Outcome]]:
    """Return the outcomes of all seeds by point."""
    outcomes: dict[Point, list[Outcome]] = {}
    for run in runs:
        outcomes.setdefault(run.point, []).append(run.outcome)
    return outcomes


def conflicts(outcomes: Sequence[Outcome], first: str = "SB") -> float:
    """Return the conflict fraction of some schedulers together, by the first letters of their names.

    Monolithic schedulers begin with M, service schedulers with S, batch schedulers with B.
    """
    chosen = [one for outcome in outcomes for one in outcome.schedulers if one.name[0] in first]
    successes = sum(one.successes for one in chosen)
    return sum(one.failures for one in chosen) / successes if successes else 0.0


def busyness(outcomes: Sequence[Outcome], first: str) -> float:
    """Return the mean busyness of the schedulers whose names begin with a letter (see `conflicts`)."""
    return float(np.mean([one.busyness for outcome in outcomes for one in outcome.schedulers if one.name[0] == first]))


def unscheduled(kind: JobKind) -> Measure:
    """Return the measure of the fraction of jobs of a kind with a task that was never placed."""
    return lambda outcomes: float(np.mean([outcome.unscheduled[kind] for outcome in outcomes]))


SLO_S: Final = 30.0
"""A usual objective for waits (section 4)."""


def plot_omega(
    runs: Sequence[Run], specialist: Sequence[SpecialistRun], figures: Mapping[str, Figure], name: str, folder: Path
) -> list[Path]:
    """Draw the figures all of whose points were run, and figures 15 and 16 if they were; return the files.

    Names of files begin with ``name``: `omega`, or `omega-google` for a day like cluster C's.
    """
    outcomes, files = outcomes_of(runs), []
    for number, figure in figures.items():
        points = next((some for some in (figure.points, figure.quick) if set(some) <= set(outcomes)), None)
        if points is None:
            continue
        jobs = ", a day like cluster C's" if name != "omega" else ""
        title = f"Omega, figure {number}: {figure.title}{jobs}"
        file, found = folder / f"{name}-figure-{number}.png", {point: outcomes[point] for point in points}
        files.append(panels(_PANELS[number](found), file, title))
    return [*files, *(plot_specialist(specialist, folder) if specialist else ())]


def _wait(kind: JobKind) -> Measure:
    return lambda outcomes: float(np.mean([outcome.wait_s[kind] for outcome in outcomes]))


def _busiest(letters: str) -> Measure:
    def measure(outcomes: Sequence[Outcome]) -> float:
        known = {one.name[0] for one in outcomes[0].schedulers}
        return max(busyness(outcomes, letter) for letter in letters if letter in known)

    return measure


def _line(outcomes: Outcomes, measure: Measure, x: str) -> Line:
    points = sorted(outcomes, key=lambda point: float(getattr(point, x)))
    return Line([getattr(point, x) for point in points], [measure(outcomes[point]) for point in points])


def _by_architecture(outcomes: Outcomes) -> dict[str, Outcomes]:
    names = dict.fromkeys(point.architecture for point in outcomes)
    return {name: {point: found for point, found in outcomes.items() if point.architecture == name} for name in names}


_T_JOB: Final = "t_job_service_s"  # a parameter of `Point`
UNSCHEDULED: Final = {"batch": unscheduled(JobKind.BATCH), "service": unscheduled(JobKind.SERVICE)}
WAITS: Final = {"batch": _wait(JobKind.BATCH), "service": _wait(JobKind.SERVICE)}
BATCH: Final = {
    "busyness of batch schedulers": _busiest("B"),
    "mean wait of batch jobs (s)": _wait(JobKind.BATCH),
    "conflict fraction": conflicts,
}
SERVICE: Final[dict[str, Measure]] = {
    "conflict fraction, service": lambda outcomes: conflicts(outcomes, "S"),
    "busyness of the service scheduler": _busiest("S"),
}


def _against_t_job(outcomes: Outcomes, measures: Mapping[str, Measure], label: str) -> list[Panel]:
    """Return a panel for each architecture."""
    y, level = ("symlog", SLO_S) if measures is WAITS else ("linear", None)
    return [
        Panel(
            {title: _line(own, measure, _T_JOB) for title, measure in measures.items()},
            "t_job (s)",
            label,
            name,
            ("log", y),
            marker="o",
            level=level,
        )
        for name, own in _by_architecture(outcomes).items()
    ]


def _architectures(
    outcomes: Outcomes, measures: Mapping[str, Measure], x: str, label: str, scale: str = "linear"
) -> list[Panel]:
    """Return a panel for each measure, with a line for each architecture."""
    parts = _by_architecture(outcomes)
    return [
        Panel(
            {name: _line(own, measure, x) for name, own in parts.items()},
            label,
            title,
            scales=(scale, "linear"),
            marker="o",
        )
        for title, measure in measures.items()
    ]


def _two_levels(outcomes: Outcomes) -> list[Panel]:
    return [
        *_against_t_job(outcomes, WAITS, "mean wait (s)"),
        *_against_t_job(outcomes, {"batch": _busiest("B"), "service": _busiest("S")}, "busyness"),
        *_against_t_job(outcomes, UNSCHEDULED, "unscheduled"),
    ]


def _by_t_task(outcomes: Outcomes) -> list[Panel]:
    """Return a panel for each architecture with a line for each t_task: the highest busyness, and unscheduled jobs."""
    measures: dict[str, Measure] = {
        "busyness": _busiest("MSB"),
        "unscheduled": lambda found: max(unscheduled(kind)(found) for kind in (JobKind.BATCH, JobKind.SERVICE)),
    }
    return [
        Panel(
            {
                f"t_task {t_s:g} s": _line({at: own[at] for at in own if at.t_task_service_s == t_s}, measure, _T_JOB)
                for t_s in sorted({point.t_task_service_s for point in own})
            },
            "t_job of service jobs (s)",
            title,
            name,
            ("log", "linear"),
            marker="o",
        )
        for title, measure in measures.items()
        for name, own in _by_architecture(outcomes).items()
    ]


_PANELS: Final[dict[str, Callable[[Outcomes], list[Panel]]]] = {
    "5": lambda found: _against_t_job(found, WAITS, "mean wait (s)"),
    "6": lambda found: _against_t_job(found, {"batch": _busiest("MB"), "service": _busiest("MS")}, "busyness"),
    "7": _two_levels,
    "8": lambda found: _architectures(found, BATCH, "batch_rate_factor", "rate of batch jobs, relative"),
    "10": _by_t_task,
    "13": lambda found: _architectures(found, BATCH, "t_job_batch_s", "t_job of batch jobs (s)"),
    "14": lambda found: _architectures(found, SERVICE, _T_JOB, "t_job of service jobs (s)", "log"),
}


TITLES: Final = {
    WorkerPolicy.MAX_PARALLELISM: "max-parallelism",
    WorkerPolicy.RELATIVE_JOB_SIZE: "relative job size (4 x)",
    WorkerPolicy.GLOBAL_CAP: "global cap (60 %)",
}


def plot_specialist(runs: Sequence[SpecialistRun], folder: Path) -> list[Path]:
    """Draw figures 15 and 16; return the files. Figure 16 shows the first seed's day."""
    speedups = [
        Panel(
            {
                title: share_up_to(np.concatenate([run.speedups for run in runs_under(runs, setting, policy)]))
                for policy, title in TITLES.items()
            },
            "speed-up of a job, predicted",
            "share of MapReduce jobs",
            setting.title,
            ("log", "linear"),
            (0.9, None),
        )
        for setting in SETTINGS
    ]
    use = [
        Panel(
            {title: _used(runs, setting, policy) for policy, title in USED.items()}, "hour", "CPU used", setting.title
        )
        for setting in SETTINGS
    ]
    return [
        panels(speedups, folder / "omega-figure-15.png", "Omega, figure 15: potential speed-up by policy"),
        panels(use, folder / "omega-figure-16.png", "Omega, figure 16: use of the cell over a day"),
    ]


USED: Final = {WorkerPolicy.AS_REQUESTED: "workers as requested", WorkerPolicy.MAX_PARALLELISM: "max-parallelism"}


def _used(runs: Sequence[SpecialistRun], setting: Setting, policy: WorkerPolicy) -> Line:
    used = runs_under(runs, setting, policy)[0].used
    return Line(np.arange(len(used)) * SAMPLE_S / 3600, used)

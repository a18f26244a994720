"""Jobs drawn from Google's trace of 2011; what history knows of them: ours, and by the paper's letter; its figures."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, sqrt
from pathlib import Path
from pickle import dumps, loads
from typing import Final, Literal, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I64
from treadle.dag import Dag, Stage
from treadle.history.profile import (
    DurationSketch,
    JobProfile,
    JobRun,
    Prediction,
    RecurrenceKey,
    StageRun,
    predicted,
    with_run,
)
from treadle.workload.clusters import GoogleJob, google_job, google_jobs
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Capacity, Framework, Job, Workload, arranged, job_work
from treadle.workload.job import loads as loads_of
from treadle.workload.reading import wrong
from treadle_lab.estimators import (
    ESTIMATORS,
    THIN_LIMIT,
    Estimate,
    Estimator,
    History,
    JobFeatures,
    JobRecord,
    features_of,
    learned,
    pilots_wanted,
    scaled_by_history,
)

LEVELS: Final = 10
THRESHOLDS_MS: Final = 10.0 ** np.arange(6, 6 + LEVELS - 1)
"""Between the levels."""
WEIGHT_FACTOR: Final = 10.0
SAMPLING_LEVEL: Final = 1
"""Level of jobs whose pilots have not ended, counted from 0."""


def levels(size_ms: F64) -> I64:
    """Return the level of each size."""
    return np.searchsorted(THRESHOLDS_MS, size_ms)


NODES: Final = 150
JOBS: Final = 1_250
"""Drawn from the second half of the trace."""
LOAD: Final = 1.01
"""The mean of the windows' (table 5)."""
DAGS: Final = 900
"""About this many."""

ERROR_P50: Final = {"pilots": 13.68, "3sigma": 21.39, "3sigma-paper": 21.39}
"""Section 4.3 has 9.15 for pilots."""
ERROR_P90: Final = {"pilots": 49.95, "3sigma": 294.52, "3sigma-paper": 294.52}


class Figures(NamedTuple):
    """The paper's figures of one experiment, by scheme or estimator."""

    speedup_mean: Mapping[str, float]
    speedup_p50: Mapping[str, float]
    error_p50: Mapping[str, float]
    error_p90: Mapping[str, float]
    right_queue: Mapping[str, float]


OF_JOBS: Final = Figures(
    {"3sigma": 1.56, "3sigma-paper": 1.56, "3sigma-tl": 1.55, "point": 2.17, "point-paper": 2.17, "las": 1.65},
    {"3sigma": 1.00, "3sigma-paper": 1.00},
    ERROR_P50,
    ERROR_P90,
    {"pilots": 86.45, "3sigma": 76.20, "3sigma-paper": 76.20},
)
OF_DAGS: Final = Figures(
    {"3sigma": 1.26, "3sigma-paper": 1.26, "point": 1.74, "point-paper": 1.74, "las": 2.15},
    {},
    {"pilots": 33.90, "3sigma": 47.21, "3sigma-paper": 47.21},
    {},
    {},
)
"""Figures for another trace, Google's of 2019. The introduction has 1.25 over 3Sigma."""


Point = Literal["utility", "median"]
"""The reduction of a distribution: the runtime with its mean utility of 1 over runtime squared, or its median."""


@dataclass(slots=True)
class _Runtimes:
    """The mean task durations of earlier jobs."""

    utility: float = 0.0
    """The sum of 1 over duration squared."""
    ordered_ms: list[float] = field(default_factory=list)
    errors: float = 0.0
    predictions: int = 0

    def add(self, mean_ms: float) -> None:
        self.utility += mean_ms**-2.0
        insort(self.ordered_ms, mean_ms)

    def point(self, point: Point) -> float:
        count = len(self.ordered_ms)
        return sqrt(count / self.utility) if point == "utility" else self.ordered_ms[count // 2]

    def judge(self, point: Point, mean_ms: float) -> None:
        self.errors += abs(self.point(point) - mean_ms) / mean_ms
        self.predictions += 1

    @property
    def error(self) -> float:
        return self.errors / self.predictions if self.predictions else inf


class PaperHistory:
    """Earlier jobs, at least one; it learns from the first part of a trace, and from nothing after it."""

    def __init__(self, records: Iterable[JobRecord], point: Point) -> None:
        """Learn from records in order of submission."""
        self._point: Point = point
        self._runtimes: dict[Hashable, _Runtimes] = {}
        self._of_all = _Runtimes()
        for record in records:
            self._add(record)

    def mean_ms(self, features: JobFeatures) -> float:
        """Return how long a task of a job is expected to run; as of all jobs if it has nothing in common with any."""
        best: _Runtimes | None = None
        for key in features_of(features):
            found = self._runtimes.get(key)
            if found is not None and (best is None or found.error < best.error):
                best = found
        return (best or self._of_all).point(self._point)

    def _add(self, record: JobRecord) -> None:
        mean_ms = max(1.0, record.mean_ms)
        for key in features_of(record.features):
            found = self._runtimes.setdefault(key, _Runtimes())
            if found.ordered_ms:
                found.judge(self._point, mean_ms)
            found.add(mean_ms)
        self._of_all.add(mean_ms)


WINDOW_MS: Final = (600_000, 90_720_000)
"""From the first event of the trace to the end of the extract, 25.2 h."""
GAP_MS: Final = (70_754_000, 75_770_000)
"""Where a part of the trace is missing: hardly any job was submitted, and no end of a task was seen."""

CUT_MS: Final = sum(WINDOW_MS) // 2
"""Jobs that were submitted before are history."""
TASKS_MAX: Final = 150
"""Jobs with more tasks are not drawn."""


Groups = tuple[tuple[JobRecord, ...], ...]
"""The stages of each job."""


class SLearnTrace(NamedTuple):
    """Jobs to run, and what history there is of jobs before them."""

    history: tuple[JobRecord, ...]
    """In order of submission."""
    workload: Workload
    groups: Groups
    """The stages of the workload's jobs with their features and their true durations, in the workload's order."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Where jobs are drawn from and how, also where paper or extract leave a choice."""

    folder: Path
    """The extract, with both tables."""
    jobs: int = JOBS
    nodes: int = NODES
    """Number of nodes of the cluster, each with one slot."""
    train_once: bool = False
    """History learns only from the first part of the trace; else also from each drawn job when the next one comes."""
    dags: bool = False
    """Jobs are DAGs of several stages (section 6)."""
    load: float = LOAD
    """The mean over windows."""


def google_slearn(draws: Draws, seed: int) -> SLearnTrace:
    """Return history and workload of a seed.

    All jobs submitted before the cut are history, with their finished tasks: omitting any would only weaken the schemes
    that learn from it. From those after it ``jobs`` are drawn uniformly; they keep their order and their gaps, which
    one factor then stretches to the wanted load: the mean over windows of 1,000 s that slide by 100 s, as in table 5. A
    node runs one task at a time, and a job is one stage.

    A DAG (``draws.dags``) is a chain of two to five stages, uniformly drawn, each of which is a whole job; all have
    the same user and job name. The paper does not say which jobs of a name become one DAG, nor whether stages form a
    chain: here consecutively submitted jobs of a name do. A DAG arrives when the first of its jobs was submitted.

    Limits of the extract: most wide jobs were killed by their users when a part of their tasks had finished, and long
    tasks go beyond the end of the extract. Unfinished tasks count as having run until their job ended, which the other
    table has for all 29 days. A job without a finished task has an unknown number of tasks and cannot be drawn.
    Arrivals after the gap move forward by its length. Tasks keep their durations.

    Raises:
        WorkloadError: a table is missing or wrong, or there are too few jobs.
    """
    history, later = split_trace(draws.folder)
    generator = np.random.default_rng((seed, 3) if draws.dags else seed)
    made = _chains(later, generator) if draws.dags else [[job] for job in later]
    if len(made) < draws.jobs:
        kind = "DAGs" if draws.dags else "jobs"
        raise wrong(
            draws.folder, "", f"{draws.jobs} {kind} are to be drawn, but only {len(made)} are left after the cut"
        )
    drawn = [made[at] for at in sorted(generator.choice(len(made), draws.jobs, replace=False).tolist())]
    if draws.dags:
        drawn.sort(key=lambda group: (_submit_ms(group), group[0].id))
    first_ms = without_gap(_submit_ms(drawn[0]))
    groups = tuple(tuple(google_record(job) for job in group) for group in drawn)
    workload = arranged(
        _job(group, records, without_gap(_submit_ms(group)) - first_ms)
        for group, records in zip(drawn, groups, strict=True)
    )
    capacity = {name: draws.nodes * amount for name, amount in CONTAINER.items()}
    return SLearnTrace(history, scaled_to_window_load(workload, capacity, draws.load), groups)


WINDOW_LENGTH_MS: Final = 1_000_000
STEP_MS: Final = 100_000
_STEPS_MAX: Final = 30
_PRECISION: Final = 0.001


def window_loads(workload: Workload, capacity: Capacity) -> F64:
    """Return the load of each sliding window, as in table 5, shape (windows,).

    A window's load is the work of the jobs that arrive in it, in each job's dominant resource, over the work that the
    cluster can do in `WINDOW_LENGTH_MS`. Windows start at the first arrival and every `STEP_MS` after it, up to the
    last that ends by the last arrival; a workload shorter than a window has one.
    """
    arrivals = np.array([job.arrival_ms for job in workload.jobs], np.int64)
    busy_ms = [
        max((work / capacity[name] for name, work in job_work(job).items() if name in capacity), default=0.0)
        for job in workload.jobs
    ]
    total = np.concatenate([[0.0], np.cumsum(busy_ms)])
    starts = np.arange(arrivals[0], max(arrivals[0], arrivals[-1] - WINDOW_LENGTH_MS) + 1, STEP_MS)
    first, end = np.searchsorted(arrivals, starts), np.searchsorted(arrivals, starts + WINDOW_LENGTH_MS)
    return np.asarray((total[end] - total[first]) / WINDOW_LENGTH_MS)


def scaled_to_window_load(workload: Workload, capacity: Capacity, load: float) -> Workload:
    """Return the same jobs with all arrival times multiplied so that the mean of `window_loads` is ``load``.

    It is met to one in a thousand, or as nearly as 30 steps can: as jobs pass from window to window the mean
    moves in jumps.
    """
    factor, best = max(loads_of(workload, capacity).values(), default=0.0) / load, (inf, workload)
    for _ in range(_STEPS_MAX):
        jobs = tuple(replace(job, arrival_ms=round(job.arrival_ms * factor)) for job in workload.jobs)
        scaled = replace(workload, jobs=jobs)
        mean = float(window_loads(scaled, capacity).mean())
        best = min(best, (abs(mean / load - 1.0), scaled), key=lambda found: found[0])
        if best[0] < _PRECISION or mean <= 0.0:
            break
        factor *= mean / load
    return best[1]


def split_trace(path: Path) -> tuple[tuple[JobRecord, ...], list[GoogleJob]]:
    """Return the history before the cut, and the jobs after it that may be drawn, in order of submission.

    Raises:
        WorkloadError: a table is missing or wrong.
    """
    found = sorted(google_jobs(path), key=lambda job: job.submit_ms)
    if any(not job.job_name for job in found):
        raise wrong(path, "", "history needs the job names of jobs_29d.csv, which is not there")
    history = tuple(google_record(job) for job in found if job.submit_ms < CUT_MS)
    return history, [job for job in found if CUT_MS <= job.submit_ms <= WINDOW_MS[1] and job.tasks <= TASKS_MAX]


def google_record(job: GoogleJob) -> JobRecord:
    """Return a row of the extract as a record: its features, and its tasks; those that were not seen end with the job.

    Where a job's end is not known either, they are left out.
    """
    features = JobFeatures(job.logical_name, job.job_name, job.user, job.submit_ms, job.cpu, job.memory, job.tasks)
    durations_ms = job.durations_ms
    if job.end_ms is not None and job.end_ms > job.submit_ms:
        until_end = np.full(job.tasks - len(job.durations_ms), job.end_ms - job.submit_ms, np.int64)
        durations_ms = np.concatenate([durations_ms, until_end])
    return JobRecord(str(job.id), features, durations_ms)


def _job(jobs: Sequence[GoogleJob], records: Sequence[JobRecord], arrival_ms: int) -> Job:
    """Return a job whose stages, a chain, have the records' tasks."""
    stages = tuple(
        Stage(
            at,
            record.tasks,
            max(1, round(record.mean_ms)),
            CONTAINER,
            (at - 1,) if at else (),
            durations_ms=record.durations_ms,
        )
        for at, record in enumerate(records)
    )
    found = google_job(jobs[0], CONTAINER, arrival_ms)
    return replace(found, dag=Dag(found.dag.name, stages))


def without_gap(time_ms: int) -> int:
    """Return a time as if the part that is missing had not been; in it, time stands still."""
    start, end = GAP_MS
    return time_ms - max(0, min(time_ms, end) - start)


STAGES: Final = (2, 5)
"""The fewest and the most that a DAG has."""


def _chains(jobs: list[GoogleJob], generator: np.random.Generator) -> list[list[GoogleJob]]:
    """Return the jobs of each user and name, cut into DAGs; a job that is left over alone is in none."""
    alike: dict[tuple[str, str], list[GoogleJob]] = {}
    for job in jobs:
        alike.setdefault((job.user, job.job_name), []).append(job)
    made = []
    for same in alike.values():
        left = same
        while len(left) >= STAGES[0]:
            count = int(generator.integers(STAGES[0], STAGES[1] + 1))
            made.append(left[:count])
            left = left[count:]
    return made


def _submit_ms(jobs: list[GoogleJob]) -> int:
    return min(job.submit_ms for job in jobs)


SCALED: Final = {"pilots": "3sigma", "combined": "point"}
"""Estimators whose estimates of a DAG's later stages are scaled by those with pilots."""
PAPERS: Final[Mapping[str, Point]] = {"3sigma-paper": "utility", "point-paper": "median"}
"""The baselines by the letter of the paper, trained on the first part of the trace alone."""
OVERESTIMATED: Final = 0.6
"""Fraction of overestimates in the paper's 3Sigma (table 10, of another trace)."""
Z80: Final = 1.2816
"""A normal distribution's 90th percentile, in deviations."""
NO_IDEA: Final = 2.0
"""The deviation of an estimate for a job that has nothing in common with any before it, as a part of it."""


class JobHints(NamedTuple):
    """Hints about jobs before they run, by stage: the first job's stages, then the second's."""

    duration_ms: I64
    """Task duration in ms; -1: unknown."""
    deviation_ms: I64
    """Its standard deviation in ms; -1: unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A draw of jobs."""

    seed: int
    workload: Workload
    """MapReduce jobs of maps alone, or DAGs, their tasks in random order: those that run first are a random sample."""
    widths: I64
    """Tasks of each job, of all its stages."""
    true_ms: F64
    """Mean duration of each job's tasks."""
    estimated_ms: dict[str, F64]
    """By estimator, of each job; pilots are the first max(1, 3 %) of its tasks. ``drawn``: see `drawn_errors`. In a DAG
    only the first stage is sampled, and predictions for the others are scaled."""
    hints: dict[str, JobHints]
    """Estimates by stage, as the engine gets them; ``history``: Point-Est with the deviation of its wide errors; and
    ``stored``: predictions of the history store, -1 for unknown ones."""

    @property
    def wide(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which jobs have three tasks or more."""
        return self.widths >= THIN_LIMIT


class Source:
    """The extract; history is learned once for each folder and cut."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._history = b""
        """Pickled."""
        self._usual_ms = 1.0
        self._papers: dict[str, PaperHistory] = {}
        self._stored = b""
        """Pickled."""

    def draw(self, seed: int) -> Trace:
        """Return the workload of a seed.

        Raises:
            WorkloadError: the extract is missing or wrong, or has too few jobs.
        """
        history, workload, groups = google_slearn(self._draws, seed)
        if not self._history:
            self._history = dumps(learned(history))
            self._stored = dumps(StoredRuns(history))
            self._usual_ms = float(np.median([record.mean_ms for record in history] or [1.0]))
            self._papers = {name: PaperHistory(history, point) for name, point in PAPERS.items()} if history else {}
        generator = np.random.default_rng((seed, 1))
        groups = tuple(
            tuple(replace(each, durations_ms=generator.permutation(each.durations_ms)) for each in group)
            for group in groups
        )
        jobs = tuple(_with_durations(job, group) for job, group in zip(workload.jobs, groups, strict=True))
        estimates = self._estimates(groups) | self._by_the_letter(groups)
        tasks = np.array([record.tasks for group in groups for record in group], np.int64)
        mean_ms = np.array([record.mean_ms for group in groups for record in group])
        starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
        widths = np.add.reduceat(tasks, starts)

        def of_jobs(stages_ms: F64) -> F64:
            return np.asarray(np.add.reduceat(stages_ms * tasks, starts) / widths)

        drawn_ms = mean_ms * drawn_errors(len(mean_ms), np.random.default_rng((seed, 2)))
        estimated = {name: of_jobs(np.array([each.mean_ms for each in said])) for name, said in estimates.items()}
        hints = {name: _hints_of(said) for name, said in estimates.items()}
        hints |= {"history": _hints_of(estimates["point"], wide=True), "drawn": _drawn(drawn_ms)}
        hints["stored"] = self._by_the_store(groups)
        made = replace(workload, jobs=jobs)
        return Trace(seed, made, widths, of_jobs(mean_ms), estimated | {"drawn": of_jobs(drawn_ms)}, hints)

    def _estimates(self, groups: Groups) -> dict[str, list[Estimate]]:
        """Estimate each stage from history and, by default, the drawn jobs before, as if ended at once."""
        history: History = loads(self._history)  # noqa: S301 (our own, and far faster than a deep copy)
        estimates: dict[str, list[Estimate]] = {name: [] for name in ESTIMATORS}
        usual = Estimate(self._usual_ms, self._usual_ms / 100, self._usual_ms * 100, NO_IDEA)
        for group in groups:
            stages = [
                {name: self._said(each, name, record, history) or usual for name, each in ESTIMATORS.items()}
                for record in group
            ]
            first = stages[0]
            for stage in stages:
                for name, said in stage.items():
                    scaled = SCALED.get(name) if stage is not first else None
                    estimates[name].append(
                        scaled_by_history(stage[scaled], first[name], first[scaled]) if scaled else said
                    )
            if not self._draws.train_once:
                for record in group:
                    history.add(record)
        return estimates

    def _by_the_letter(self, groups: Groups) -> dict[str, list[Estimate]]:
        """Estimate each stage as the paper's 3Sigma and Point-Est do, whatever is drawn before it."""
        estimates: dict[str, list[Estimate]] = {name: [] for name in PAPERS}
        for record in (record for group in groups for record in group):
            for name, said in estimates.items():
                known = self._papers.get(name)
                mean_ms = self._usual_ms if known is None else known.mean_ms(record.features)
                said.append(Estimate(mean_ms, mean_ms / 100, mean_ms * 100, NO_IDEA))
        return estimates

    def _by_the_store(self, groups: Groups) -> JobHints:
        """Return the history store's prediction for each stage; it learns as the other histories do."""
        stored: StoredRuns = loads(self._stored)  # noqa: S301 (our own)
        predictions: list[Prediction | None] = []
        for group in groups:
            predictions += [stored.prediction(record.features) for record in group]
            if not self._draws.train_once:
                for record in group:
                    stored.add(record)
        found = [(-1, -1) if each is None else (each.duration_ms, each.deviation_ms) for each in predictions]
        durations_ms, deviations_ms = np.array(found, np.int64).T.copy()
        return JobHints(durations_ms, deviations_ms)

    @staticmethod
    def _said(estimator: Estimator, name: str, record: JobRecord, history: History) -> Estimate | None:
        features = replace(record.features, width=record.tasks)
        samples = record.durations_ms if name == "oracle" else record.durations_ms[: pilots_wanted(record.tasks)]
        return estimator(features, history, samples)


def _with_durations(job: Job, records: tuple[JobRecord, ...]) -> Job:
    stages = tuple(
        replace(stage, durations_ms=record.durations_ms) for stage, record in zip(job.dag.stages, records, strict=True)
    )
    framework = Framework.TEZ if len(stages) > 1 else Framework.MAPREDUCE
    return replace(job, dag=Dag(job.dag.name, stages), framework=framework)


def drawn_errors(count: int, generator: np.random.Generator) -> F64:
    """Return ratios of estimated to true durations; their errors have the P50 and P90 of the paper's 3Sigma.

    They show the effect of error sizes alone on this workload. The errors' logarithms are normal; an estimate that is
    too small is a twentieth of the true duration at least.
    """
    low, high = ERROR_P50["3sigma"] / 100, ERROR_P90["3sigma"] / 100
    error = low * np.exp(generator.normal(size=count) * np.log(high / low) / Z80)
    too_large = generator.random(count) < OVERESTIMATED
    return np.asarray(np.where(too_large, 1.0 + error, np.maximum(1.0 - error, 0.05)))


def _drawn(mean_ms: F64) -> JobHints:
    return JobHints(np.rint(np.maximum(mean_ms, 1.0)).astype(np.int64), np.full(len(mean_ms), -1))


def _hints_of(estimates: list[Estimate], *, wide: bool = False) -> JobHints:
    mean = np.array([max(each.mean_ms, 1.0) for each in estimates])
    sigma = [each.wide_sigma if wide else each.sigma for each in estimates]
    deviation = np.minimum(sigma, NO_IDEA) * mean
    return JobHints(np.rint(mean).astype(np.int64), np.rint(deviation).astype(np.int64))


STAGE = "map"


class StoredRuns:
    """Profiles of the jobs that have run. They are bounded by the trace: a store's own bounds are larger."""

    def __init__(self, records: Iterable[JobRecord] = ()) -> None:
        """Learn from records in order of submission."""
        self._profiles: dict[RecurrenceKey, JobProfile] = {}
        for record in records:
            self.add(record)

    def add(self, record: JobRecord) -> None:
        """Take in a job as if it had ended when it was submitted, as other histories here do."""
        key, submit_ms = _key(record.features), record.features.submit_ms
        durations = DurationSketch(record.durations_ms.tolist())
        run = JobRun(key, record.id, submit_ms, submit_ms, (StageRun(STAGE, record.tasks, durations),))
        profile = with_run(self._profiles.get(key), run)
        if profile is not None:
            self._profiles[key] = profile

    def prediction(self, features: JobFeatures) -> Prediction | None:
        """Return the hint for a job's tasks; None without an earlier run."""
        profile = self._profiles.get(_key(features))
        return None if profile is None or not profile.stages else predicted(profile.stages[0], {})


def _key(features: JobFeatures) -> RecurrenceKey:
    return RecurrenceKey(features.user, "default", "MAPREDUCE", features.application)

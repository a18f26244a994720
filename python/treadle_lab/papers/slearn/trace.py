"""The Google 2011 workload of SLearn, made ready for the simulator, and what estimators say of its jobs beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import dumps, loads
from typing import Final

import numpy as np

from treadle.compiled.array_types import F64, I64
from treadle.dag.dag import Dag
from treadle.history.profile import Prediction
from treadle.simulator.feed import JobHints
from treadle.workload.job import Framework, Job, JobRecord, Workload
from treadle_lab.papers.slearn.dags import google_slearn_dags
from treadle_lab.papers.slearn.paper import ERROR_P50, ERROR_P90, LOAD
from treadle_lab.papers.slearn.paper_history import PaperHistory, Point
from treadle_lab.papers.slearn.stored import StoredRuns
from treadle_lab.papers.slearn.workload import Draw, Unseen, google_slearn
from treadle_lab.readers.estimators.accuracy import pilots_wanted
from treadle_lab.readers.estimators.estimator import Estimate
from treadle_lab.readers.estimators.estimators import (
    Combined,
    EarlierMedian,
    Estimator,
    Oracle,
    Pilots,
    PointEstimate,
    ThreeSigma,
    scaled_by_history,
)
from treadle_lab.readers.estimators.three_sigma import THIN_LIMIT, History, learned

ESTIMATORS: Final[Mapping[str, Estimator]] = {
    "pilots": Pilots(),
    "3sigma": ThreeSigma(),
    "point": PointEstimate(),
    "median": EarlierMedian(),
    "combined": Combined(),
    "oracle": Oracle(),
}
SCALED: Final = {"pilots": "3sigma", "combined": "point"}
"""Whose estimates of a DAG's later stages those who need pilots scale."""
PAPERS: Final[Mapping[str, Point]] = {"3sigma-paper": "utility", "point-paper": "median"}
"""The baselines by the letter of the paper, trained on the first part of the trace alone."""
Groups = tuple[tuple[JobRecord, ...], ...]
"""The stages of each job."""
OVERESTIMATED: Final = 0.6
"""Of the paper's 3Sigma (table 10, of another trace)."""
Z80: Final = 1.2816
"""A normal distribution's 90th percentile, in deviations."""
PILOTS_PART: Final = 0.03
NO_IDEA: Final = 2.0
"""The deviation of an estimate for a job that has nothing in common with any before it, as a part of it."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How the workload is built where paper or extract leave a choice; `google_slearn` has the first three."""

    cut: float = 0.5
    seen_share: float = 0.0
    unseen: Unseen = "job_end"
    train_once: bool = False
    """History learns only from the first part of the trace; else also from each drawn job when the next one comes."""
    dags: bool = False
    """Jobs are DAGs of several stages (section 6)."""
    shuffled: bool = False
    """Any jobs of a name are stages of a DAG, else those submitted one after another."""
    load: float = LOAD
    """The mean over windows."""


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
    """By estimator, of each job; pilots are the first max(1, 3 %) of its tasks. ``drawn``: see `drawn_errors`. Of a DAG
    only the first stage is sampled, and what history says of the others is scaled."""
    hints: dict[str, JobHints]
    """Estimates by stage, as the engine gets them; ``history``: Point-Est with the deviation of its wide errors; and
    ``stored``: what the store of profiles says, -1 where it knows nothing."""
    variation_time: F64
    """Coefficient of variation of what each job's first stage has in common with history; NaN: with nothing."""
    variation_space: F64
    """That of the mean of 3 % of the first stage's tasks; NaN for one task."""

    @property
    def wide(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which jobs have three tasks or more."""
        return self.widths >= THIN_LIMIT


class Source:
    """The extract; history is learned once for each folder and cut."""

    def __init__(self, path: Path, jobs: int, nodes: int, choices: Choices | None = None) -> None:
        self._path, self._jobs, self._nodes = path, jobs, nodes
        self._choices = Choices() if choices is None else choices
        self._history = b""
        """As pickled."""
        self._usual_ms = 1.0
        self._papers: dict[str, PaperHistory] = {}
        self._stored = b""
        """As pickled."""

    def draw(self, seed: int) -> Trace:
        """Return the workload of a seed.

        Raises:
            WorkloadError: the extract is missing or wrong, or has too few jobs.
        """
        history, workload, groups = self._read(seed)
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
        known = next(iter(self._papers.values()), None)
        over_time = np.array([np.nan if known is None else known.variation(group[0].features) for group in groups])
        over_space = np.array([_variation(group[0].durations_ms) for group in groups])
        all_estimated = estimated | {"drawn": of_jobs(drawn_ms)}
        return Trace(seed, made, widths, of_jobs(mean_ms), all_estimated, hints, over_time, over_space)

    def _read(self, seed: int) -> tuple[Sequence[JobRecord], Workload, Groups]:
        """Return history, jobs and the records of their stages."""
        chosen = self._choices
        draw = Draw(
            nodes=self._nodes,
            load=chosen.load,
            cut=chosen.cut,
            seen_share=chosen.seen_share,
            unseen=chosen.unseen,
        )
        if chosen.dags:
            return google_slearn_dags(self._path, seed, self._jobs, draw, shuffled=chosen.shuffled)
        drawn = google_slearn(self._path, seed, self._jobs, draw)
        return drawn.history, drawn.workload, tuple((record,) for record in drawn.records)

    def _estimates(self, groups: Groups) -> dict[str, list[Estimate]]:
        """Estimate each stage from history and, by default, the drawn jobs before, as if ended at once."""
        history: History = loads(self._history)  # noqa: S301 (our own, and far faster than a deep copy)
        found: dict[str, list[Estimate]] = {name: [] for name in ESTIMATORS}
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
                    found[name].append(scaled_by_history(stage[scaled], first[name], first[scaled]) if scaled else said)
            if not self._choices.train_once:
                for record in group:
                    history.add(record)
        return found

    def _by_the_letter(self, groups: Groups) -> dict[str, list[Estimate]]:
        """Estimate each stage as the paper's 3Sigma and Point-Est do, whatever is drawn before it."""
        found: dict[str, list[Estimate]] = {name: [] for name in PAPERS}
        for record in (record for group in groups for record in group):
            for name, said in found.items():
                known = self._papers.get(name)
                mean_ms = self._usual_ms if known is None else known.mean_ms(record.features)
                said.append(Estimate(mean_ms, mean_ms / 100, mean_ms * 100, NO_IDEA))
        return found

    def _by_the_store(self, groups: Groups) -> JobHints:
        """Return what the store of profiles says of each stage; it learns as the other histories do."""
        stored: StoredRuns = loads(self._stored)  # noqa: S301 (our own)
        said: list[Prediction | None] = []
        for group in groups:
            said += [stored.prediction(record.features) for record in group]
            if not self._choices.train_once:
                for record in group:
                    stored.add(record)
        found = [(-1, -1) if each is None else (each.duration_ms, each.deviation_ms) for each in said]
        durations_ms, deviations_ms = np.array(found, np.int64).T.copy()
        return JobHints(durations_ms, deviations_ms)

    @staticmethod
    def _said(estimator: Estimator, name: str, record: JobRecord, history: History) -> Estimate | None:
        features = replace(record.features, width=record.tasks)
        samples = record.durations_ms if name == "oracle" else record.durations_ms[: pilots_wanted(record.tasks)]
        return estimator.estimate(features, history, samples)


def _variation(durations_ms: I64) -> float:
    """Return the deviation of tasks over their mean and the root of 3 % of their number, which may be below one."""
    if len(durations_ms) < 2 or not durations_ms.any():
        return float("nan")
    return float(durations_ms.std() / durations_ms.mean() / np.sqrt(PILOTS_PART * len(durations_ms)))


def _with_durations(job: Job, records: tuple[JobRecord, ...]) -> Job:
    stages = tuple(
        replace(stage, durations_ms=record.durations_ms) for stage, record in zip(job.dag.stages, records, strict=True)
    )
    framework = Framework.TEZ if len(stages) > 1 else Framework.MAPREDUCE
    return replace(job, dag=Dag(job.dag.name, stages), framework=framework)


def drawn_errors(count: int, generator: np.random.Generator) -> F64:
    """Return ratios of estimated to true durations; their errors have the P50 and P90 of the paper's 3Sigma.

    They show what the size of errors alone would do to this workload. The errors' logarithms are normal; an estimate
    that is too small is a twentieth of the true duration at least.
    """
    low, high = ERROR_P50["3sigma"] / 100, ERROR_P90["3sigma"] / 100
    error = low * np.exp(generator.normal(size=count) * np.log(high / low) / Z80)
    too_large = generator.random(count) < OVERESTIMATED
    return np.asarray(np.where(too_large, 1.0 + error, np.maximum(1.0 - error, 0.05)))


def _drawn(mean_ms: F64) -> JobHints:
    return JobHints(np.rint(np.maximum(mean_ms, 1.0)).astype(np.int64), np.full(len(mean_ms), -1))


def _hints_of(said: list[Estimate], *, wide: bool = False) -> JobHints:
    mean = np.array([max(each.mean_ms, 1.0) for each in said])
    sigma = [each.wide_sigma if wide else each.sigma for each in said]
    deviation = np.minimum(sigma, NO_IDEA) * mean
    return JobHints(np.rint(mean).astype(np.int64), np.rint(deviation).astype(np.int64))

"""The Google 2011 workload of SLearn, made ready for the simulator, and what estimators say of its jobs beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import dumps, loads
from typing import Final

import numpy as np

from treadle.dag.dag import Dag
from treadle.estimate.accuracy import pilots_wanted
from treadle.estimate.estimator import Z90, Estimate, Estimator
from treadle.estimate.estimators import Combined, EarlierMedian, Oracle, Pilots, PointEstimate, ThreeSigma
from treadle.estimate.history import THIN_LIMIT, History, learned
from treadle.model.types import F64, I64
from treadle.reproduce.slearn_levels import SAMPLING_LEVEL, levels
from treadle.reproduce.slearn_paper import ERROR_P50, ERROR_P90
from treadle.simulator.frames import Told
from treadle.workload.history import JobRecord
from treadle.workload.job import Framework, Job, Workload
from treadle.workload.slearn import Unseen, google_slearn

ESTIMATORS: Final[Mapping[str, Estimator]] = {
    "pilots": Pilots(),
    "3sigma": ThreeSigma(),
    "point": PointEstimate(),
    "median": EarlierMedian(),
    "combined": Combined(),
    "oracle": Oracle(),
}
OVERESTIMATED: Final = 0.6
"""Of the paper's 3Sigma (table 10, of another trace)."""
CERTAIN: Final = 0.75
"""So much of the logarithm of the 90 % interval must be of one level for history to settle it: 78 % of a normal one."""
DURATION_MAX_MS: Final = 2.0**40
Z80: Final = 1.2816
"""A normal distribution's 90th percentile, in deviations."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A draw of jobs."""

    seed: int
    workload: Workload
    """MapReduce jobs of maps alone, their tasks in random order: those that run first are a random sample."""
    widths: I64
    true_ms: F64
    """Mean duration of each job's tasks."""
    estimated_ms: dict[str, F64]
    """By estimator, of each job; pilots are the first max(1, 3 %) of its tasks. ``drawn``: see `drawn_errors`."""
    told: dict[str, Told]
    """The same as the engine is told, and ``certain``: what history says where that settles a job's level."""

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

    def draw(self, seed: int) -> Trace:
        """Return the workload of a seed.

        Raises:
            WorkloadError: the extract is missing or wrong, or has too few jobs.
        """
        chosen = self._choices
        drawn = google_slearn(
            self._path,
            seed,
            self._jobs,
            nodes=self._nodes,
            cut=chosen.cut,
            seen_share=chosen.seen_share,
            unseen=chosen.unseen,
        )
        if not self._history:
            self._history = dumps(learned(drawn.history))
            self._usual_ms = float(np.median([record.mean_ms for record in drawn.history] or [1.0]))
        generator = np.random.default_rng((seed, 1))
        records = tuple(
            replace(record, durations_ms=generator.permutation(record.durations_ms)) for record in drawn.records
        )
        jobs = tuple(_bag_of_maps(job, record) for job, record in zip(drawn.workload.jobs, records, strict=True))
        estimates = self._estimates(records)
        widths = np.array([record.tasks for record in records], np.int64)
        told = {name: _told(said) for name, said in estimates.items()}
        true_ms = np.array([record.mean_ms for record in records])
        drawn_ms = true_ms * drawn_errors(len(records), np.random.default_rng((seed, 2)))
        return Trace(
            seed,
            replace(drawn.workload, jobs=jobs),
            widths,
            true_ms,
            {name: np.array([each.mean_ms for each in said]) for name, said in estimates.items()} | {"drawn": drawn_ms},
            told | {"certain": _certain(estimates["point"], widths), "drawn": _drawn(drawn_ms)},
        )

    def _estimates(self, records: tuple[JobRecord, ...]) -> dict[str, list[Estimate]]:
        """Estimate each job from history and, unless told otherwise, the drawn jobs before it, as if ended at once."""
        history: History = loads(self._history)  # noqa: S301 (our own, and far faster than a deep copy)
        found: dict[str, list[Estimate]] = {name: [] for name in ESTIMATORS}
        usual = Estimate(self._usual_ms, self._usual_ms / 100, self._usual_ms * 100, NO_IDEA)
        for record in records:
            features = replace(record.features, width=record.tasks)
            pilots = record.durations_ms[: pilots_wanted(record.tasks)]
            for name, estimator in ESTIMATORS.items():
                samples = record.durations_ms if name == "oracle" else pilots
                found[name].append(estimator.estimate(features, history, samples) or usual)
            if not self._choices.train_once:
                history.add(record)
        return found


def _bag_of_maps(job: Job, record: JobRecord) -> Job:
    stage = replace(job.dag.stages[0], durations_ms=record.durations_ms)
    return replace(job, dag=Dag(job.dag.name, (stage,)), framework=Framework.MAPREDUCE)


def drawn_errors(count: int, generator: np.random.Generator) -> F64:
    """Return estimates over truth, drawn for each job alike, with the P50 and P90 of the errors of the paper's 3Sigma.

    They show what the size of errors alone would do to this workload. The errors' logarithms are normal; an estimate
    that is too small is a twentieth of the truth at least.
    """
    low, high = ERROR_P50["3sigma"] / 100, ERROR_P90["3sigma"] / 100
    error = low * np.exp(generator.normal(size=count) * np.log(high / low) / Z80)
    too_large = generator.random(count) < OVERESTIMATED
    return np.asarray(np.where(too_large, 1.0 + error, np.maximum(1.0 - error, 0.05)))


def _drawn(mean_ms: F64) -> Told:
    return Told(np.rint(np.maximum(mean_ms, 1.0)).astype(np.int64), np.full(len(mean_ms), -1))


def _certain(said: list[Estimate], widths: I64) -> Told:
    """Return what is told of jobs that need no pilots: a duration that is not too short, and no doubt.

    Such is a job both ends of whose narrowed interval are of one level, or of which even the upper end comes no later
    than pilots would. Of the others nothing is told.
    """
    mean = np.array([each.mean_ms for each in said])
    spread = np.exp(CERTAIN * Z90 * np.array([each.wide_sigma for each in said]))
    low, high = levels(mean / spread * widths), levels(mean * spread * widths)
    certain = (low == high) | (high <= SAMPLING_LEVEL)
    upper = np.rint(np.maximum(np.minimum(mean * spread, DURATION_MAX_MS), 1.0)).astype(np.int64)
    return Told(np.where(certain, upper, -1), np.where(certain, 0, -1))


def _told(said: list[Estimate]) -> Told:
    mean = np.array([max(each.mean_ms, 1.0) for each in said])
    deviation = np.array([min(each.sigma, NO_IDEA) for each in said]) * mean
    return Told(np.rint(mean).astype(np.int64), np.rint(deviation).astype(np.int64))

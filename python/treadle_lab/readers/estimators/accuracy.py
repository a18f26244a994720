"""How wrong estimators are on a trace, each job estimated from those before it (SLearn, NSDI 2022, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from treadle.workload.job import JobRecord
from treadle_lab.readers.estimators.estimators import THIN_LIMIT, Durations, Estimator, History, Samples


@dataclass(frozen=True, slots=True, eq=False)
class Accuracy:
    """The errors of an estimator."""

    percent: npt.NDArray[np.float64]
    """Of each job that it estimated: how far off its mean is, over the true mean, shape (estimated,)."""
    within: float
    """The share of them whose true mean lies in the interval; 0.9 would be as promised."""
    silent: int
    """Jobs for which it had no estimate."""

    def quantile(self, share: float) -> float:
        """Return the error that this share of the jobs does not exceed; NaN if there is none."""
        return float(np.quantile(self.percent, share)) if len(self.percent) else float("nan")


def pilots_wanted(width: int, ratio: float = 0.03) -> int:
    """Return how many tasks to sample: max(1, ratio * width), rounded down (section 4.3)."""
    return max(1, int(ratio * width))


def measure(
    estimators: Mapping[str, Estimator],
    earlier: Sequence[JobRecord],
    records: Sequence[JobRecord],
    seed: int,
    *,
    ratio: float = 0.03,
    tasks_max: int | None = None,
    seen_share: float = 0.9,
    in_order_of_end: bool = False,
) -> dict[str, Accuracy]:
    """Estimate each wide job from the jobs before it, and compare.

    Args:
        estimators: by name.
        earlier: history before the first record, in order.
        records: jobs in order of submission; those of three tasks or more of which ``seen_share`` were seen are
            estimated, and all become history.
        seed: of the draw of pilots, the same pilots for all estimators.
        ratio: of pilots.
        tasks_max: wider jobs are not estimated.
        seen_share: of a job's tasks.
        in_order_of_end: a job becomes history when it has ended, and one whose end is not known never; else when the
            next job comes, as if it had ended at once, which is how the paper counts.
    """
    generator = np.random.default_rng(seed)
    history = History()
    for record in earlier:
        history.add(record)
    found: dict[str, list[tuple[float, bool] | None]] = {name: [] for name in estimators}
    waiting: list[JobRecord] = []
    for record in records:
        if in_order_of_end:
            ended = [job for job in waiting if job.end_ms is not None and job.end_ms <= record.features.submit_ms]
            for job in sorted(ended, key=lambda job: (job.end_ms or 0, job.id)):
                history.add(job)
            waiting = [job for job in waiting if job.end_ms and job.end_ms > record.features.submit_ms]
        width = record.features.width
        if record.tasks >= max(THIN_LIMIT, ceil(seen_share * width)) and width <= (tasks_max or width):
            drawn = generator.choice(record.durations_ms, pilots_wanted(record.tasks, ratio), replace=False)
            for name, estimator in estimators.items():
                found[name].append(_compare(estimator, record, history, drawn))
        if in_order_of_end:
            waiting.append(record)
        else:
            history.add(record)
    return {name: _accuracy(results) for name, results in found.items()}


def _compare(estimator: Estimator, record: JobRecord, history: History, pilots: Durations) -> tuple[float, bool] | None:
    samples = {
        Samples.NONE: record.durations_ms[:0],
        Samples.PILOTS: pilots,
        Samples.ALL: record.durations_ms,
    }[estimator.needs]
    estimate = estimator.estimate(record.features, history, samples)
    if estimate is None:
        return None
    true_ms = record.mean_ms
    return 100.0 * abs(estimate.mean_ms - true_ms) / true_ms, estimate.low_ms <= true_ms <= estimate.high_ms


def _accuracy(results: Sequence[tuple[float, bool] | None]) -> Accuracy:
    said = [result for result in results if result is not None]
    percent = np.array([error for error, _ in said], np.float64)
    within = sum(inside for _, inside in said) / len(said) if said else 0.0
    return Accuracy(percent, within, len(results) - len(said))

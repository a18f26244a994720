"""The result of one simulation: its jobs, tasks, nodes and queues as tables of numpy, and its figures.

Figures of single jobs, from the table of jobs or from its columns in a file of results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, Records
from treadle.simulator.results import TASK, Summary, job_records, node_records, queue_records, summarise, task_records
from treadle.simulator.simulation import Run as Simulated

SIZES: Final = ((1, "1 to 10 tasks"), (11, "11 to 100"), (101, "101 to 1,000"), (1001, "over 1,000"))
"""Classes of jobs: the least number of tasks, and what a class is called."""

BOUNDED_S: Final = 10.0
"""A bounded slowdown counts a job as if nothing could end it sooner than this."""
STATISTICS: Final[Mapping[str, int | None]] = {"mean": None, "P50": 50, "P90": 90, "P99": 99}

Table = Records | Mapping[str, Any]
"""The table of jobs, or its columns by name."""


def completion_s(jobs: Table) -> F64:
    """Return how long each job took in seconds, shape (jobs,); NaN for one that did not end well."""
    took = (np.asarray(jobs["end_ms"], np.float64) - np.asarray(jobs["arrival_ms"], np.float64)) / 1000.0
    return np.where(np.asarray(jobs["state"], object) == "done", took, np.nan)


def slowdown(jobs: Table) -> F64:
    """Return how many times as long as its bound each job took, shape (jobs,); NaN for one that did not end well.

    The bound is ``ideal_ms``; a job without work has none, and is NaN too.
    """
    ideal_s = np.asarray(jobs["ideal_ms"], np.float64) / 1000.0
    return completion_s(jobs) / np.where(ideal_s > 0, ideal_s, np.nan)


def size_of(tasks: int) -> str:
    """Return the name of the class of a job with this many tasks."""
    return next((name for least, name in reversed(SIZES) if tasks >= least), SIZES[0][1])


def size_classes(jobs: Table) -> Any:
    """Return the name of each job's class by its number of tasks, shape (jobs,)."""
    at = np.searchsorted([least for least, _ in SIZES], np.asarray(jobs["tasks"]), side="right") - 1
    return np.array([name for _, name in SIZES], object)[np.maximum(at, 0)]


def figures_of(jobs: Table) -> dict[str, float]:
    """Return completion, wait (completion less bound), slowdown and bounded slowdown of jobs that ended well.

    Each by `STATISTICS`, of all jobs and by class of their sizes: ``completion, mean`` and ``wait, P99, 11 to 100``.
    """
    took, ideal = completion_s(jobs), np.asarray(jobs["ideal_ms"], np.float64) / 1000.0
    quantities = {
        "completion": took,
        "wait": took - ideal,
        "slowdown": slowdown(jobs),
        "bounded slowdown": np.maximum(took / np.maximum(ideal, BOUNDED_S), 1.0),
    }
    classes = size_classes(jobs)
    groups = {"": np.ones(len(took), bool)} | {name: classes == name for _, name in SIZES}
    return {
        f"{what}, {statistic}{', ' * bool(name)}{name}": _statistic(values[inside & np.isfinite(values)], part)
        for name, inside in groups.items()
        for what, values in quantities.items()
        for statistic, part in STATISTICS.items()
        if (inside & np.isfinite(values)).any()
    }


def _statistic(values: F64, part: int | None) -> float:
    return float(values.mean() if part is None else np.percentile(values, part))


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One policy with one seed. Every table has the same rows under every policy, so that runs can be paired.

    docs/simulate-from-python.md has the columns.
    """

    policy: str
    seed: int
    summary: Summary
    """The figures that `treadle simulate` shows."""
    jobs: Records
    tasks: Records
    nodes: Records
    queues: Records

    @property
    def warnings(self) -> list[str]:
        """What the engine said of the policy on this cluster."""
        return self.summary.warnings

    @property
    def completion_s(self) -> F64:
        """How long each job took from its arrival to its end, shape (jobs,); NaN for one that did not end well."""
        return completion_s(self.jobs)

    @property
    def slowdown(self) -> F64:
        """How many times as long as the bound ``ideal_ms`` each job took, shape (jobs,); NaN as `completion_s`."""
        return slowdown(self.jobs)


def run_of(simulated: Simulated, policy: str, seed: int, *, tasks: bool = True) -> Run:
    """Return the result of a simulation; without ``tasks`` their table is empty."""
    return Run(
        policy,
        seed,
        summarise(simulated, policy, seed),
        job_records(simulated),
        task_records(simulated) if tasks else np.zeros(0, TASK),
        node_records(simulated),
        queue_records(simulated),
    )

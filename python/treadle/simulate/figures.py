"""Figures of single jobs, from the table of jobs or from its columns in a file of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, Records

SIZES: Final = ((1, "1 to 10 tasks"), (11, "11 to 100"), (101, "101 to 1,000"), (1001, "over 1,000"))
"""Classes of jobs: the least number of tasks, and what a class is called."""

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

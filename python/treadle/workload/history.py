"""What is known of a job besides its DAG: the features by which history finds earlier jobs like it, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """What is known of a job when it comes: the six features of 3Sigma (SLearn, NSDI 2022, section 4.2)."""

    application: str
    """What runs (in Google's trace the logical job name)."""
    name: str
    user: str
    submit_ms: int
    """As in the trace, not as scaled: day and hour are features."""
    cpu: float
    """Requested by a task, in whatever unit the trace has; as ``memory``."""
    memory: float
    width: int
    """How many tasks it has, whether or not all of them were seen to finish."""


@dataclass(frozen=True, slots=True, eq=False)
class JobRecord:
    """A job that has run."""

    id: str
    features: JobFeatures
    durations_ms: npt.NDArray[np.int64] = field(repr=False)
    """Of its tasks, shape (tasks,), at least one."""
    end_ms: int | None = None
    """When it ended, on the clock of ``features.submit_ms``; None if nobody knows."""

    @property
    def tasks(self) -> int:
        """How many tasks it has."""
        return len(self.durations_ms)

    @property
    def mean_ms(self) -> float:
        """The mean duration of its tasks."""
        return float(self.durations_ms.mean())

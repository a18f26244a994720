"""Durations as observed so far."""

from __future__ import annotations

from pydantic import Field

from treadle.compiled.array_types import F64
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.work import observed_durations


class ObservedParameters(Parameters):
    """What can be set."""

    default_ms: int = Field(
        default=30_000,
        ge=1,
        le=2**40,
        description="How long a task is taken to run of an application none of whose tasks has ended.",
    )


class ObservedEstimate:
    """The mean duration of the application's tasks of the same priority that ended, else of all its tasks that did."""

    def __init__(self, parameters: ObservedParameters) -> None:
        self.default_ms = float(parameters.default_ms)

    def durations(self, cluster: Cluster, view: View, rows_ms: F64, groups_ms: F64, told_ms: F64) -> None:
        """Set the means."""
        observed_durations(view, cluster.requests.size, cluster.tasks.size, rows_ms, groups_ms)

"""Estimates of how long tasks run: none, observed means, hints."""

from __future__ import annotations

from pydantic import Field

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import NoParameters, Parameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.work import hinted_durations, observed_durations


class NoEstimate:
    """Nothing is known of how long anything takes: all tasks count alike."""

    default_ms = 1000.0

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def durations(
        self, cluster: Cluster, view: View, ended: Records, rows_ms: F64, groups_ms: F64, hint_ms: F64
    ) -> None:
        """Leave all durations unknown."""


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

    def durations(
        self, cluster: Cluster, view: View, ended: Records, rows_ms: F64, groups_ms: F64, hint_ms: F64
    ) -> None:
        """Set the means."""
        observed_durations(view, ended, cluster.requests.size, cluster.tasks.size, rows_ms, groups_ms)


class HintsParameters(Parameters):
    """What can be set."""

    default_ms: int = Field(
        default=30_000, ge=1, le=2**40, description="How long a task is taken to run for which there is no hint."
    )

    def needs(self) -> tuple[str, ...]:
        """Return the event sources of durations: the store of earlier runs, or application masters."""
        return ("profiles.store", "listener.address")


class HintsEstimate:
    """Hints of a profile store, of AMs or of the simulator's oracle (`treadle.events.TaskEstimates`)."""

    def __init__(self, parameters: HintsParameters) -> None:
        self.default_ms = float(parameters.default_ms)

    def durations(
        self, cluster: Cluster, view: View, ended: Records, rows_ms: F64, groups_ms: F64, hint_ms: F64
    ) -> None:
        """Set the hints."""
        hinted_durations(view, cluster.hints.size, rows_ms, groups_ms)

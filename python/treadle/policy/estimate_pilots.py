"""Durations by pilots, as SLearn has them (NSDI 2022, section 5.1.2)."""

from __future__ import annotations

from pydantic import Field

from treadle.config.parts import PARTS, Parameters
from treadle.model.cluster import Cluster
from treadle.model.types import F64
from treadle.model.view import View
from treadle.policy.kernel.sampling import pilot_durations
from treadle.policy.kernel.work import observed_durations


class PilotsEstimateParameters(Parameters):
    """What can be set."""

    default_ms: int = Field(
        default=30_000,
        ge=1,
        le=2**40,
        description="How long a task is taken to run of an application none of whose tasks has ended.",
    )


@PARTS.register("estimate", "pilots", PilotsEstimateParameters)
class PilotsEstimate:
    """The mean of a stage's pilots, once they have ended (gate: pilots); of what is not sampled as by `observed`."""

    def __init__(self, parameters: PilotsEstimateParameters) -> None:
        self.default_ms = float(parameters.default_ms)

    def durations(self, cluster: Cluster, view: View, rows_ms: F64, groups_ms: F64) -> None:
        """Set the means."""
        rows, groups = cluster.requests.size, cluster.tasks.size
        observed_durations(view, rows, groups, rows_ms, groups_ms)
        pilot_durations(view, rows, groups, rows_ms, groups_ms)

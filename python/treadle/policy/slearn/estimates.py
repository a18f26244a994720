"""Durations by pilots, as SLearn and SLearn-DAG have them (NSDI 2022, sections 5.1.2 and 6)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.slearn.confidence import scale_told
from treadle.policy.slearn.pilot_estimates import pilot_durations
from treadle.policy.work import observed_durations


class PilotsEstimateParameters(Parameters):
    """What can be set."""

    default_ms: int = Field(
        default=30_000,
        ge=1,
        le=2**40,
        description="How long a task is taken to run of an application none of whose tasks has ended.",
    )
    scale_history: bool = Field(
        default=False,
        description="Stages that are not sampled take what was told of them, times what the pilots said of theirs over "
        "what was told of it (SLearn-DAG).",
    )

    def needs(self) -> tuple[str, ...]:
        """Return where history is remembered, if it is scaled."""
        return ("profiles.store",) if self.scale_history else ()


class PilotsEstimate:
    """The mean of a stage's pilots, once they have ended (gate: pilots); of what is not sampled as by `observed`."""

    def __init__(self, parameters: PilotsEstimateParameters) -> None:
        self.default_ms = float(parameters.default_ms)
        self._scale_history = parameters.scale_history

    def durations(self, cluster: Cluster, view: View, rows_ms: F64, groups_ms: F64, told_ms: F64) -> None:
        """Set the means."""
        rows, groups = cluster.requests.size, cluster.tasks.size
        observed_durations(view, rows, groups, rows_ms, groups_ms)
        if self._scale_history:
            keys, factors = cluster.told.size, np.empty(cluster.apps.size)
            scale_told(view, cluster.apps.size, keys, 0.0, factors, rows_ms, groups_ms, told_ms)
        pilot_durations(view, rows, groups, rows_ms, groups_ms)

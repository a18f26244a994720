"""Durations by pilots and by what was told, each with the weight of its certainty."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.slearn.confidence import scale_told
from treadle.policy.slearn.pilot_estimates import join_told, pilot_durations
from treadle.policy.work import observed_durations, told_durations


class CombinedParameters(Parameters):
    """What can be set."""

    default_ms: int = Field(
        default=30_000,
        ge=1,
        le=2**40,
        description="How long a task is taken to run of which nothing was told and nothing seen.",
    )
    told_error: float = Field(
        default=1.0,
        gt=0.0,
        le=10.0,
        description="How far off what was told is taken to be where nobody said: the deviation of its logarithm.",
    )
    scale_history: bool = Field(
        default=True,
        description="What was told of stages that are not sampled is corrected by as much as the pilots correct what "
        "was told of theirs.",
    )


class CombinedEstimate:
    """Pilots and what `TaskEstimates` told, their logarithms averaged by inverse variance; else whichever there is."""

    def __init__(self, parameters: CombinedParameters) -> None:
        self.default_ms = float(parameters.default_ms)
        self._told_error = parameters.told_error
        self._scale_history = parameters.scale_history

    def durations(self, cluster: Cluster, view: View, rows_ms: F64, groups_ms: F64, told_ms: F64) -> None:
        """Set what is known."""
        rows, groups = cluster.requests.size, cluster.tasks.size
        observed_durations(view, rows, groups, rows_ms, groups_ms)
        told_durations(view, cluster.told.size, rows_ms, groups_ms)
        if self._scale_history:
            keys, factors = cluster.told.size, np.empty(cluster.apps.size)
            scale_told(view, cluster.apps.size, keys, self._told_error, factors, rows_ms, groups_ms, told_ms)
        pilot_durations(view, rows, groups, rows_ms, groups_ms)
        join_told(view, cluster.told.size, self._told_error, rows_ms, groups_ms)

"""No estimates."""

from __future__ import annotations

from treadle.compiled.array_types import F64
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View


class NoEstimate:
    """Nothing is known of how long anything takes: all tasks count alike."""

    default_ms = 1000.0

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def durations(self, cluster: Cluster, view: View, rows_ms: F64, groups_ms: F64, told_ms: F64) -> None:
        """Leave all durations unknown."""

"""Least attained service."""

from __future__ import annotations

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.policy.jobs import Jobs
from treadle.policy.parts import PlainOrder
from treadle.policy.state import KEYED


class LasOrder(PlainOrder):
    """The application that has used the least so far: dominant share of the cluster x time."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Serve every leaf by the keys."""
        leaves["order"] = KEYED

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set the service attained when the decide begins."""
        key[:] = jobs.service_ms()

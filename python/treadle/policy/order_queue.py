"""The order that each leaf queue is configured with."""

from __future__ import annotations

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.policy.jobs import Jobs
from treadle.policy.parts import PlainOrder


class QueueOrder(PlainOrder):
    """Applications come in the order of their leaf's own ordering-policy: fifo, or fair, by size or not."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Copy what the queues say."""
        leaves["order"] = cluster.queues.at["order"]
        leaves["sized"] = cluster.queues.at["sized"]

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set nothing: both orders have keys of their own."""

"""The order that each leaf queue is configured with."""

from __future__ import annotations

from treadle.config.parts import PARTS, NoParameters
from treadle.model.cluster import Cluster
from treadle.model.types import U8


@PARTS.register("order", "queue")
class QueueOrder:
    """Applications come in the order of their leaf's own ordering-policy: fifo, or fair, by size or not."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def orders(self, cluster: Cluster, leaf_order: U8) -> None:
        """Copy what the queues say."""
        leaf_order[:] = cluster.queues.at["order"]

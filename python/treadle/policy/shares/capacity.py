"""The CapacityScheduler's guarantees."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.policy.share_state import CAPACITY, Shares, no_tree


class CapacityShare:
    """Queues get what the CapacityScheduler guarantees them, and more when others leave it unused."""

    rule = CAPACITY

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def shares(self, cluster: Cluster) -> Shares:
        """Return no tree: this rule walks down that of the queues."""
        return no_tree(len(cluster.counted))

    def warnings(self) -> Sequence[str]:
        """Return nothing."""
        return ()

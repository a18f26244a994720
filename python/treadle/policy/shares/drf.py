"""Dominant resource fairness among leaf queues (Ghodsi et al., NSDI 2011)."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.model.cluster import Cluster
from treadle.policy.share_state import NAIVE, Shares
from treadle.policy.shares.tree import ShareTree, TreeParameters


class DrfShare:
    """DRF: the leaf queue with the least dominant share comes first, whatever tree it is in."""

    rule = NAIVE

    def __init__(self, parameters: TreeParameters) -> None:
        self._tree = ShareTree(parameters, flat=True)

    def shares(self, cluster: Cluster) -> Shares:
        """Return all leaves below one root."""
        return self._tree.shares(cluster)

    def warnings(self) -> Sequence[str]:
        """Return which queues and names of the given tree do not match."""
        return self._tree.warnings

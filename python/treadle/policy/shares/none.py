"""No share: queues do not matter."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.policy.share_state import NONE, Shares
from treadle.policy.shares.tree import ShareTree, TreeParameters


class NoShare:
    """The applications of all queues come in one order, as if they were in one queue."""

    rule = NONE

    def __init__(self, parameters: NoParameters) -> None:
        self._tree = ShareTree(TreeParameters(weights="equal"), flat=True)

    def shares(self, cluster: Cluster) -> Shares:
        """Return all leaves below one root."""
        return self._tree.shares(cluster)

    def warnings(self) -> Sequence[str]:
        """Return nothing."""
        return ()

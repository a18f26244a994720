"""Hierarchical dominant resource fairness (Bhattacharya et al., SoCC 2013)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from treadle.model.cluster import Cluster
from treadle.policy.share_state import HDRF, NAIVE, Shares
from treadle.policy.shares.tree import ShareTree, TreeParameters


class HdrfParameters(TreeParameters):
    """What can be set."""

    static: bool = Field(
        default=False,
        description="Algorithm 1, without rescaling, not 2 to 4. As tasks end, leaves may starve (section 3.3).",
    )


class HdrfShare:
    """H-DRF: at each level of the tree the queue with the least dominant share, rescaled, comes first."""

    def __init__(self, parameters: HdrfParameters) -> None:
        self.rule = NAIVE if parameters.static else HDRF
        self._tree = ShareTree(parameters, flat=False)

    def shares(self, cluster: Cluster) -> Shares:
        """Return the tree of the queues, or the given one."""
        return self._tree.shares(cluster)

    def warnings(self) -> Sequence[str]:
        """Return which queues and names of the given tree do not match."""
        return self._tree.warnings

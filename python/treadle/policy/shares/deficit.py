"""Deficit counters: how unfair a schedule may be for the sake of its order (Graphene, OSDI 2016, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from treadle.model.cluster import Cluster
from treadle.policy.share_state import DEFICIT, Shares
from treadle.policy.shares.tree import ShareTree, TreeParameters


class DeficitParameters(TreeParameters):
    """What can be set."""

    kappa: float = Field(
        default=0.1,
        ge=0.0,
        le=1.0,
        description="The largest deficit, as a part of the capacity, up to which the order decides across all queues.",
    )
    slots: bool = Field(
        default=False, description="A container counts 1 (slots); else its dominant demand (as DRF would)."
    )


class DeficitShare:
    """The order decides across all leaf queues, until one is too far behind its fair share; then that one is served."""

    rule = DEFICIT

    def __init__(self, parameters: DeficitParameters) -> None:
        self._tree = ShareTree(parameters, flat=True, kappa=parameters.kappa, slots=parameters.slots)

    def shares(self, cluster: Cluster) -> Shares:
        """Return all leaves below one root, with their deficits."""
        return self._tree.shares(cluster)

    def warnings(self) -> Sequence[str]:
        """Return which queues and names of the given tree do not match."""
        return self._tree.warnings

"""YARN's fair ordering policy: the application that uses least comes first."""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING

from pydantic import Field

from treadle.compiled.array_types import F64, Records
from treadle.compiled.functions import inner
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, USED
from treadle.policy.parts import PlainOrder
from treadle.policy.work import Jobs

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import Scratch


@inner
def key(view: View, scratch: Scratch, leaf: int, app: int) -> float:
    """Return memory used; with size-based weight over log2(1 + used and asked for) (YARN's FairOrderingPolicy)."""
    magnitude = float(view.app_amounts[app, USED, 0] + view.app_amounts[app, ASSUMED, 0])
    if scratch.queues[leaf].sized and magnitude != 0.0:
        pending = max(view.apps[app].demand - view.app_amounts[app, ASSUMED, 0], 0)
        magnitude /= log1p(magnitude + pending) / log(2.0)
    return magnitude


class FairParameters(Parameters):
    """What can be set."""

    size_based_weight: bool = Field(
        default=False, description="Divide the memory used by log2(1 + the memory used and asked for)."
    )


class FairOrder(PlainOrder):
    """The application that uses the least memory first, as YARN's FairOrderingPolicy."""

    def __init__(self, parameters: FairParameters) -> None:
        self._sized = parameters.size_based_weight

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Say of every leaf whether the weight is size-based."""
        leaves["sized"] = self._sized

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set nothing: the loop follows what is used as it places."""

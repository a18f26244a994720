"""Fair among the applications of a leaf."""

from __future__ import annotations

from pydantic import Field

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.policy.jobs import Jobs
from treadle.policy.parts import PlainOrder
from treadle.policy.state import FAIR


class FairParameters(Parameters):
    """What can be set."""

    size_based_weight: bool = Field(
        default=False, description="Divide what an application uses by log2(1 + the memory that it still asks for)."
    )


class FairOrder(PlainOrder):
    """The application that uses the least memory first, as YARN's FairOrderingPolicy."""

    def __init__(self, parameters: FairParameters) -> None:
        self._sized = parameters.size_based_weight

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Serve every leaf so."""
        leaves["order"] = FAIR
        leaves["sized"] = self._sized

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set nothing: the loop follows what is used as it places."""

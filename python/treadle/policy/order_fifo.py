"""First in, first out."""

from __future__ import annotations

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.policy.jobs import Jobs
from treadle.policy.parts import PlainOrder
from treadle.policy.state import FIFO


class FifoOrder(PlainOrder):
    """The application with the highest priority first, then the one that came first."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Serve every leaf so."""
        leaves["order"] = FIFO

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set nothing."""

"""Orders that need nothing compiled: the queues' own, and those by keys that are worked out once a decide."""

from __future__ import annotations

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.policy.parts import PlainOrder
from treadle.policy.state import FIFO
from treadle.policy.work import Jobs


class FifoOrder(PlainOrder):
    """The application with the highest priority first, then the one that came first."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Serve every leaf so."""
        leaves["order"] = FIFO

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set nothing."""


class LasOrder(PlainOrder):
    """The application that has used the least so far: dominant share of the cluster x time."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set the service attained when the decide begins."""
        key[:] = jobs.service_ms()


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


class SrptOrder(PlainOrder):
    """The application with the least work left: over its remaining tasks the sum of duration x demands."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set the work left when the decide begins; of what the gate holds back for now, nothing."""
        here = jobs.cluster.apps.in_use()
        key[here] = jobs.work()[here] * jobs.part()[here]

"""Shortest remaining processing time (Tetris, SIGCOMM 2014; Graphene, OSDI 2016, section 5)."""

from __future__ import annotations

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.policy.jobs import Jobs
from treadle.policy.parts import PlainOrder
from treadle.policy.state import KEYED


class SrptOrder(PlainOrder):
    """The application with the least work left: over its remaining tasks the sum of duration x demands."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Serve every leaf by the keys."""
        leaves["order"] = KEYED

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set the work left when the decide begins; of a job whose pilots have not ended, that of its pilots."""
        key[:] = jobs.work() * jobs.pilots_part()

"""The gate that lets everything through."""

from __future__ import annotations

from treadle.compiled.array_types import Records
from treadle.config.parts import NoParameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.parts import PlainGate


class AllGate(PlainGate):
    """Every ask may be served at any time."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Let every row through."""
        rows["may"] = 1

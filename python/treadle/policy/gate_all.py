"""The gate that lets everything through."""

from __future__ import annotations

from treadle.config.parts import PARTS, NoParameters
from treadle.model.cluster import Cluster
from treadle.model.types import U8


@PARTS.register("gate", "all")
class AllGate:
    """Every ask may be served at any time."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def open(self, cluster: Cluster, may: U8) -> None:
        """Let every row through."""
        may[:] = 1

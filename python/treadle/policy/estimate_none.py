"""No estimates."""

from __future__ import annotations

from treadle.config.parts import PARTS, NoParameters
from treadle.model.cluster import Cluster
from treadle.model.types import I64


@PARTS.register("estimate", "none")
class NoEstimate:
    """Nothing is known of how long anything takes."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def remaining_ms(self, cluster: Cluster) -> I64 | None:
        """Return None."""
        return None

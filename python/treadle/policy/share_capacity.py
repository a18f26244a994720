"""The CapacityScheduler's guarantees."""

from __future__ import annotations

from treadle.config.parts import PARTS, NoParameters
from treadle.policy.kernel.share import CAPACITY


@PARTS.register("share", "capacity")
class CapacityShare:
    """Queues get what the CapacityScheduler guarantees them, and more when others leave it unused."""

    rule = CAPACITY

    def __init__(self, parameters: NoParameters) -> None:
        pass

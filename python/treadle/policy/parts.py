"""What each kind of part must do. A part fills columns or picks a compiled rule; the inner loop reads them.

A new part is a class with one of these interfaces in a file of its own, registered by the line above it; see
`share_capacity` for the shortest example. A rule that must look at every step of the loop is a function in
`treadle.policy.kernel`.
"""

from __future__ import annotations

from typing import Protocol

from treadle.model.cluster import Cluster
from treadle.model.types import I64, U8


class Gate(Protocol):
    """May this ask be served now?"""

    def open(self, cluster: Cluster, may: U8) -> None:
        """Set ``may[row]`` to 1 for each request row that may get containers in this decide (0 before)."""


class Share(Protocol):
    """Which queue is owed most?"""

    rule: int
    """Which of the rules in `treadle.policy.kernel.share` compares queues."""


class Order(Protocol):
    """Which application first?"""

    def orders(self, cluster: Cluster, leaf_order: U8) -> None:
        """Set ``leaf_order[queue]`` to `treadle.model.queues.FIFO` or `FAIR` for each leaf."""


class Fit(Protocol):
    """Which node for an ask?"""

    rule: int
    """`treadle.policy.kernel.scratch.FIRST_FIT` or `PACKING`."""
    window: int
    """How many nodes on which the ask fits are compared."""


class Estimate(Protocol):
    """How long, and how much is left?"""

    def remaining_ms(self, cluster: Cluster) -> I64 | None:
        """Return for each application the work left in milliseconds, or None if nothing is known of any."""

"""The schedulers that Phoenix' paper compares, and Phoenix with parts left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from treadle_lab.models.workers.probing import PROBE_RATIO
from treadle_lab.models.workers.state import Order, Placement


@dataclass(frozen=True, slots=True)
class System:
    """A scheduler.

    Attributes:
        name: as in tables of results.
        long: who places the tasks of long jobs.
        short: who places those of short jobs.
        order: of queues.
        steals: whether idle workers ask others for probes.
        avoids: whether short probes keep away from long work.
        probes_min: the fewest probes of a job.
        constrained_ratio: probes for each task of a job that cannot run everywhere.
        partitioned: whether long jobs keep to the long partition.
        constrained: whether constraints hold; without that each job runs anywhere.
        by_crv: whether queues are ordered by demand over supply.
        gated: whether that holds only where the wait is long.
        spares: whether those that can choose keep away from workers that others need.
        sparing: with that, how much the work of others that a long task displaces counts against its waiting.
        negotiates: whether soft constraints can be given up.
    """

    name: str
    long: Placement
    short: Placement
    order: Order
    steals: bool = False
    avoids: bool = False
    probes_min: int = 1
    constrained_ratio: int = PROBE_RATIO
    sparing: float = 0.0
    partitioned: bool = True
    constrained: bool = False
    by_crv: bool = False
    gated: bool = False
    spares: bool = False
    negotiates: bool = False

    @property
    def is_phoenix(self) -> bool:
        """Whether it counts what Phoenix counts: the one queue spares workers too."""
        return self.order >= Order.PHOENIX


EAGLE_PROBES_MIN: Final = 20

_PROBES, _CENTRAL, _SEEN = Placement.PROBES, Placement.LEAST_WAITING, Placement.LEAST_WAITING_SEEN
_PLAIN: Final = (
    System("sparrow", _PROBES, _PROBES, Order.FIFO, partitioned=False),
    System("hawk", _CENTRAL, _PROBES, Order.FIFO, steals=True),
    System("eagle", _CENTRAL, _PROBES, Order.EAGLE, avoids=True, probes_min=EAGLE_PROBES_MIN),
    System("clwl", _CENTRAL, _CENTRAL, Order.FIFO),
    System("dlwl", _SEEN, _SEEN, Order.SRPT),
)
_PHOENIX: Final = System(
    "phoenix",
    _CENTRAL,
    _PROBES,
    Order.PHOENIX,
    avoids=True,
    probes_min=EAGLE_PROBES_MIN,
    constrained=True,
    by_crv=True,
    gated=True,
    constrained_ratio=4,
    spares=True,
    sparing=32.0,
    negotiates=True,
)

_ONE_QUEUE: Final = System(
    "one-queue-srpt-c",
    Placement.ONE_QUEUE,
    Placement.ONE_QUEUE,
    Order.NONE,
    partitioned=False,
    constrained=True,
    spares=True,
)

SYSTEMS: Final[dict[str, System]] = {
    one.name: one
    for one in (
        *_PLAIN,
        *(replace(one, name=f"{one.name}-c", constrained=True) for one in _PLAIN),
        replace(_PLAIN[-1], name="yacc-d-c", constrained=True),
        _PHOENIX,
        _ONE_QUEUE,
        replace(_PHOENIX, name="phoenix-without-order", by_crv=False),
        replace(_PHOENIX, name="phoenix-without-gate", gated=False),
        replace(_PHOENIX, name="phoenix-without-scarcity", spares=False),
        replace(_PHOENIX, name="phoenix-without-negotiation", negotiates=False),
    )
}
"""By name. `yacc-d-c` is `dlwl-c`: the paper's Yacc-D with constraints."""

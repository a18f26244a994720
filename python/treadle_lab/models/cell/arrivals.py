"""The order of a cell's events: those that are scheduled, and the arrivals of jobs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.simulator.event_queue import remove_first
from treadle_lab.models.cell.placing import use
from treadle_lab.models.cell.state import EventKind, Total
from treadle_lab.models.kernels import inner

if TYPE_CHECKING:
    from treadle_lab.models.cell.state import CellState


@inner
def next_event(cell: CellState, arrived: int, end_s: float) -> tuple[int, int]:
    """Set the clock to the next event or arrival and return its kind and subject; events come second.

    Args:
        cell: of the run
        arrived: how many jobs have arrived
        end_s: when the run ends; what happens at it counts. After that the clock is there, and the kind `NOTHING`.
    """
    arrives = arrived < len(cell.arrival_s)
    if cell.totals[Total.EVENTS] > 0 and (not arrives or cell.event_s[0] < cell.arrival_s[arrived]):
        now, kind, subject = cell.event_s[0], cell.event_kind[0], cell.event_subject[0]
        if now <= end_s:
            cell.clock_s[0] = now
            remove_first(cell)
            return kind, subject
    elif arrives and cell.arrival_s[arrived] <= end_s:
        cell.clock_s[0] = cell.arrival_s[arrived]
        return EventKind.ARRIVED.value, arrived
    cell.clock_s[0] = end_s
    use(cell, 0)
    return EventKind.NOTHING.value, -1

"""A heap of events in order of their time and, at the same instant, in the order in which they were scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.simulator import inner
from treadle.simulator.cell.state import Total

if TYPE_CHECKING:
    from treadle.simulator.cell.state import CellState


@inner
def schedule(cell: CellState, time_s: float, kind: int, subject: int) -> None:
    """Let something happen at an instant."""
    at = cell.totals[Total.EVENTS]
    order = cell.totals[Total.ORDER]
    cell.totals[Total.EVENTS] = at + 1
    cell.totals[Total.ORDER] = order + 1
    while at > 0:
        above = (at - 1) >> 1
        if cell.event_s[above] <= time_s:
            break
        _move(cell, above, at)
        at = above
    cell.event_s[at] = time_s
    cell.event_order[at] = order
    cell.event_kind[at] = kind
    cell.event_subject[at] = subject


@inner
def remove_first(cell: CellState) -> None:
    """Take the first event away; there is one."""
    last = cell.totals[Total.EVENTS] - 1
    cell.totals[Total.EVENTS] = last
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and _earlier(cell, below + 1, below):
            below += 1
        if not _earlier(cell, below, last):
            break
        _move(cell, below, at)
        at = below
    _move(cell, last, at)


@inner
def _earlier(cell: CellState, a: int, b: int) -> bool:
    if cell.event_s[a] != cell.event_s[b]:
        return cell.event_s[a] < cell.event_s[b]
    return cell.event_order[a] < cell.event_order[b]


@inner
def _move(cell: CellState, here: int, there: int) -> None:
    cell.event_s[there] = cell.event_s[here]
    cell.event_order[there] = cell.event_order[here]
    cell.event_kind[there] = cell.event_kind[here]
    cell.event_subject[there] = cell.event_subject[here]

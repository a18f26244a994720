"""Rows that frames shorten: steps of containers, and runs of fates, made whole again for the engine."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.events.columns import INDEX_MAX
from treadle.wire.schema import WireError

FATES_MAX: Final = INDEX_MAX
"""Fates in one frame: more than an answer of any size has rows."""

_KEPT: Final[dict[str, type[np.generic]]] = {
    "container": np.int64,
    "application": np.int32,
    "priority": np.int32,
    "node": np.int32,
    "created_ms": np.int64,
    "by_treadle": np.uint8,
    "am": np.uint8,
    "capability": np.int64,
}
_INT32: Final = np.iinfo(np.int32)


class ContainerSlots:
    """The last full row of each container, by its slot."""

    def __init__(self, resources: int) -> None:
        """Know none; ``resources`` is R."""
        self._known = np.zeros(16, bool)
        self._kept: dict[str, npt.NDArray[Any]] = {}
        for name, type_ in _KEPT.items():
            self._kept[name] = np.zeros((16, resources) if name == "capability" else 16, type_)

    def keep(self, rows: events.ContainerRows) -> None:
        """Take full rows; of several with one slot the last counts."""
        slots = _places(rows.slot)
        more = int(rows.slot.max()) + 1 - len(self._known)
        if more > 0:
            more = max(more, len(self._known))
            self._known = np.append(self._known, np.zeros(more, bool))
            for name, column in self._kept.items():
                self._kept[name] = np.concatenate([column, np.zeros((more, *column.shape[1:]), column.dtype)])
        for name, column in self._kept.items():
            column[slots] = getattr(rows, name)
        self._known[slots] = True

    def whole(self, steps: events.ContainerSteps, rm_time_ms: int) -> events.Containers:
        """Return steps with all that a full row has.

        Raises:
            WireError: a slot that no full row gave.
        """
        slot = np.array(steps.slot)
        known = int(slot.max()) < len(self._known) and bool(self._known[slot].all())
        if not known:
            unknown = [each for each in slot.tolist() if each >= len(self._known) or not self._known[each]]
            raise WireError("CONTAINER_STEPS.slot", f"{unknown[0]} is no container's")
        return events.Containers(
            **{name: column[slot] for name, column in self._kept.items()},
            event=steps.event,
            time_ms=rm_time_ms - steps.age_ms.astype(np.int64),
            exit_status=steps.exit_status,
        )


def _places(slots: npt.NDArray[np.int32]) -> slice | npt.NDArray[np.int32]:
    """Return where the slots are, as a slice if they follow one another, as in a snapshot: it is faster to write to."""
    first = int(slots[0])
    follow = int(slots[-1]) - first == len(slots) - 1 and bool((slots[1:] > slots[:-1]).all())
    return slice(first, first + len(slots)) if follow else slots


def fates_of(runs: events.FateRuns) -> events.Fates:
    """Return a row for each fate.

    Raises:
        WireError: there are more than `FATES_MAX`, or a position beyond the bound of an answer.
    """
    counts = runs.count.astype(np.int64)
    rows = int(counts.sum())
    if rows > FATES_MAX:
        raise WireError("FATES.count", f"{rows} fates, more than {FATES_MAX}")
    if int((runs.position + counts).max()) > int(_INT32.max):
        raise WireError("FATES.position", "a run goes beyond the last position that an answer can have")
    ends = np.cumsum(counts)
    within = np.arange(rows) - np.repeat(ends - counts, counts)
    return events.Fates(
        sequence=np.repeat(runs.sequence, counts),
        position=(np.repeat(runs.position, counts) + within).astype(np.int32),
        fate=np.repeat(runs.fate, counts),
        container=np.zeros(rows, np.int64),
    )


def runs_of(fates: events.Fates) -> events.FateRuns:
    """Return adjacent fates of adjacent positions in one row."""
    sequence, position = np.asarray(fates.sequence, np.int64), np.asarray(fates.position, np.int32)
    fate = np.asarray(fates.fate, np.uint8)
    rows = len(sequence)
    goes_on = np.zeros(rows, bool)
    goes_on[1:] = (sequence[1:] == sequence[:-1]) & (fate[1:] == fate[:-1]) & (position[1:] == position[:-1] + 1)
    first: npt.NDArray[np.int64] = np.flatnonzero(~goes_on)
    count = np.diff(np.append(first, rows)).astype(np.int32)
    return events.FateRuns(sequence=sequence[first], position=position[first], count=count, fate=fate[first])


def rows_of(containers: events.Containers) -> events.ContainerRows:
    """Return full rows with slots from 0: where no steps follow, a reader keeps no more than one frame has."""
    columns = {name: getattr(containers, name) for name in (*_KEPT, "event", "time_ms", "exit_status")}
    return events.ContainerRows(**columns, slot=np.arange(len(containers.container), dtype=np.int32) % INDEX_MAX)

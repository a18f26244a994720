"""Fates of proposals, which frames have as runs."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.events.columns import INDEX_MAX
from treadle.wire.schema import WireError

FATES_MAX: Final = INDEX_MAX
"""Fates in one frame: more than an answer of any size has rows."""

_INT32: Final = np.iinfo(np.int32)


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

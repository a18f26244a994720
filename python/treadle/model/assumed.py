"""Assumed allocations: proposals whose fate is not known yet.

Between a proposal and its fate the node's free space, the use of queues, user and application, and the outstanding asks all count
it as if it were there. The RM's rows are absolute and tell the state after the commits whose fates come in the same frame, so what is
assumed stands in columns of its own, and a fate takes it off there whatever came before it in the frame: nothing counts twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treadle.model.kernel import assume as kernel
from treadle.model.types import I32, I64, U8

if TYPE_CHECKING:
    from treadle.model.cluster import View

MAX_BATCHES = 256
"""Answers with unknown fates that are kept; the shim has one at a time."""


class BatchColumns(NamedTuple):
    """A row a proposal, in the order of the answer; ``open`` is 0 once its fate is known."""

    application: I32
    key: I32
    node: I32
    row: I32
    queue: I32
    user: I32
    partition: I32
    node_place: I32  # the locality rows that it uses up, or -1
    rack_place: I32
    capability: I64
    open: U8

    @classmethod
    def empty(cls, rows: int, resources: int) -> BatchColumns:
        """Return room for ``rows`` proposals."""
        columns = [np.full(rows, -1, np.int32) for _ in range(9)]
        return cls(*columns, np.zeros((rows, resources), np.int64), np.ones(rows, np.uint8))

    def first(self, rows: int) -> BatchColumns:
        """Return a copy of the first ``rows`` rows."""
        return BatchColumns(*(column[:rows].copy() for column in self))


@dataclass(slots=True)
class Batch:
    """One answer."""

    columns: BatchColumns
    decide: int
    time_ms: int
    left: int


class Assumed:
    """Answers whose fates are not all known, by the sequence of the frame that each answered."""

    def __init__(self) -> None:
        self._batches: dict[int, Batch] = {}

    def __len__(self) -> int:
        return sum(batch.left for batch in self._batches.values())

    def add(self, view: View, sequence: int, batch: Batch) -> None:
        """Remember an answer that `place` has already assumed in the columns."""
        if sequence in self._batches or len(self._batches) == MAX_BATCHES:
            oldest = sequence if sequence in self._batches else next(iter(self._batches))
            self._give_up(view, oldest)
        self._batches[sequence] = batch

    def resolve(self, view: View, sequence: int, positions: I32, fates: U8) -> BatchColumns | None:
        """Take off the proposals at ``positions`` of the answer to frame ``sequence``; return it, None if it is not known."""
        batch = self._batches.get(sequence)
        if batch is None:
            return None
        batch.left -= int(kernel.resolve(view, batch.columns, batch.decide, positions, fates))
        if batch.left == 0:
            del self._batches[sequence]
        return batch.columns

    def expire(self, view: View, now_ms: int, timeout_ms: int) -> int:
        """Give up answers older than ``timeout_ms`` milliseconds; return how many proposals had no fate."""
        old = [sequence for sequence, batch in self._batches.items() if now_ms - batch.time_ms >= timeout_ms]
        return sum(self._give_up(view, sequence) for sequence in old)

    def _give_up(self, view: View, sequence: int) -> int:
        batch = self._batches.pop(sequence)
        rows = len(batch.columns.open)
        unknown = np.full(rows, 255, np.uint8)
        kernel.resolve(view, batch.columns, batch.decide, np.arange(rows, dtype=np.int32), unknown)
        return batch.left

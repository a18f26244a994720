"""Assumed allocations: proposals whose fate is not known yet.

Between a proposal and its fate the node's free space, the use of queues, user and application, and the outstanding
asks all count it as if it were there. The RM's rows are absolute and tell the state after the commits whose fates
come in the same frame, so what is assumed stands in columns of its own, and a fate takes it off there whatever came
before it in the frame: nothing counts twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.model import in_flight_compiled as kernel

if TYPE_CHECKING:
    from treadle.model.view import View

MAX_BATCHES: Final = 256
"""Answers with unknown fates that are kept; the shim has one at a time."""


PROPOSAL: Final = np.dtype(
    [
        ("application", "i4"),
        ("key", "i4"),
        ("node", "i4"),
        ("row", "i4"),
        ("queue", "i4"),
        ("user", "i4"),
        ("partition", "i4"),
        ("node_place", "i4"),  # the locality rows that it uses up, or -1
        ("rack_place", "i4"),
        ("open", "u1"),  # 0 once its fate is known
    ],
    align=True,
)


@dataclass(slots=True)
class Batch:
    """One answer: its proposals in order, what each asks for (row, resource), and how many fates are unknown."""

    proposals: Records
    capability: I64
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
            self.give_up(view, oldest)
        self._batches[sequence] = batch

    def resolve(self, view: View, sequence: int, positions: I32, fates: U8) -> Records | None:
        """Take off proposals of the answer to frame ``sequence``; return the answer, None if it is not known."""
        batch = self._batches.get(sequence)
        if batch is None:
            return None
        batch.left -= int(kernel.resolve(view, batch.proposals, batch.capability, batch.decide, positions, fates))
        if batch.left == 0:
            del self._batches[sequence]
        return batch.proposals

    def expire(self, view: View, now_ms: int, timeout_ms: int) -> int:
        """Give up answers older than ``timeout_ms`` milliseconds; return how many proposals had no fate."""
        old = [sequence for sequence, batch in self._batches.items() if now_ms - batch.time_ms >= timeout_ms]
        return sum(self.give_up(view, sequence) for sequence in old)

    def give_up(self, view: View, sequence: int) -> int:
        """Take off what is left of an answer; return how many of its proposals had no fate."""
        batch = self._batches.pop(sequence)
        rows = len(batch.proposals)
        unknown = np.full(rows, 255, np.uint8)
        kernel.resolve(view, batch.proposals, batch.capability, batch.decide, np.arange(rows, dtype=np.int32), unknown)
        return batch.left

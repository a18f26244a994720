"""Proposals in flight (without a known outcome), and the backoff that rejections cause.

The RM's reason identifies the cause: the pair of request row and node (another node may work), the node, or the row.
That item is not proposed again for a number of cycles that doubles with each consecutive rejection (`BACKOFF_MAX`).
Counting cycles instead of time keeps it deterministic. A constraint that the engine does not evaluate itself, such as
on tags of other applications, may become satisfied at any time: the pair is retried after at most `CONSTRAINT_MS` of
the RM's time, similar to YARN, which retries a node at each heartbeat.

Until its outcome is known, a proposal counts as placed: in the node's free resources, in the usage of queues, user and
application, and in the outstanding requests. The RM's rows are absolute and include the commits whose outcomes come in
the same frame. In-flight amounts are separate columns, which an outcome reduces, so nothing is counted twice.

`RejectionCounts` counts rejections by application and reason, for `treadle explain`.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import PairMap
from treadle.events import Fate
from treadle.model.tables import ASSUMED, View, renumbered


@inner
def count_in_flight(view: View, batch: Records, capability: I64, i: int, cycle: int, sign: int) -> None:
    """Count proposal ``i`` as in flight (sign 1) or no longer (-1): node, queues, user, application, row, localities.

    ``cycle`` is the one that made it: the row of a locality may since have been freed or reused.
    """
    app, row, node = batch[i].application, batch[i].row, batch[i].node
    user, partition = batch[i].user, batch[i].partition
    view.apps[app].assumed_count += sign
    view.rows[row].assumed += sign
    for r in range(capability.shape[1]):
        amount = sign * capability[i, r]
        view.node_amounts[node, ASSUMED, r] += amount
        view.app_amounts[app, ASSUMED, r] += amount
        if user >= 0:
            view.user_amounts[user, ASSUMED, r] += amount
        queue = batch[i].queue
        while queue >= 0:
            view.limit_amounts[queue, partition, ASSUMED, r] += amount
            queue = view.queues[queue].parent
    at_node, at_rack = batch[i].node_place, batch[i].rack_place
    if at_node >= 0 and view.places[at_node].born <= cycle:
        view.places[at_node].assumed += sign
    if at_rack >= 0 and view.places[at_rack].born <= cycle:
        view.places[at_rack].assumed += sign


@kernel
def resolve(view: View, batch: Records, capability: I64, cycle: int, positions: I32, fates: U8) -> int:
    """Release the proposals at ``positions``; return how many were still open. Fate 0 is a commit."""
    resolved = 0
    for k in range(len(positions)):
        i = positions[k]
        if i < 0 or i >= len(batch) or batch[i].open == 0:
            continue
        batch[i].open = 0
        resolved += 1
        count_in_flight(view, batch, capability, i, cycle, -1)
        if fates[k] == 0:
            view.rows[batch[i].row].backoff_level = 0
    return resolved


MAX_BATCHES: Final = 256
"""Maximum number of answers with unknown outcomes; the shim has at most two at a time."""

PROPOSAL: Final = np.dtype(
    [
        ("application", "i4"),
        ("key", "i4"),
        ("node", "i4"),
        ("row", "i4"),
        ("queue", "i4"),
        ("user", "i4"),
        ("partition", "i4"),
        ("node_place", "i4"),  # the locality rows that it consumes, or -1
        ("rack_place", "i4"),
        ("open", "u1"),  # 0 once its outcome is known
    ],
    align=True,
)


@dataclass(slots=True)
class Batch:
    """One answer: its proposals in order, their resources (row, resource), and the number of unknown outcomes."""

    proposals: Records
    capability: I64
    cycle: int
    time_ms: int
    left: int


class Assumed:
    """Answers with unknown outcomes, by the sequence number of the answered frame."""

    def __init__(self) -> None:
        self._batches: dict[int, Batch] = {}

    def __len__(self) -> int:
        return sum(batch.left for batch in self._batches.values())

    def proposals(self) -> list[Records]:
        """Return the proposals by answer, oldest first; those with an outcome are no longer ``open``."""
        return [batch.proposals for batch in self._batches.values()]

    def add(self, view: View, sequence: int, batch: Batch) -> None:
        """Add an answer whose proposals `place` has already counted as in flight."""
        if sequence in self._batches or len(self._batches) == MAX_BATCHES:
            oldest = sequence if sequence in self._batches else next(iter(self._batches))
            self.give_up(view, oldest)
        self._batches[sequence] = batch

    def resolve(self, view: View, sequence: int, positions: I32, fates: U8) -> Records | None:
        """Release proposals of the answer to frame ``sequence``; return the answer, None if it is unknown."""
        batch = self._batches.get(sequence)
        if batch is None:
            return None
        batch.left -= int(resolve(view, batch.proposals, batch.capability, batch.cycle, positions, fates))
        if batch.left == 0:
            del self._batches[sequence]
        return batch.proposals

    def expire(self, view: View, now_ms: int, timeout_ms: int) -> int:
        """Release answers older than ``timeout_ms``; return the number of proposals without an outcome."""
        old = [sequence for sequence, batch in self._batches.items() if now_ms - batch.time_ms >= timeout_ms]
        return sum(self.give_up(view, sequence) for sequence in old)

    def give_up(self, view: View, sequence: int) -> int:
        """Release the rest of an answer; return the number of its proposals without an outcome."""
        batch = self._batches.pop(sequence)
        rows = len(batch.proposals)
        unknown = np.full(rows, 255, np.uint8)  # any number but that of a commit
        resolve(view, batch.proposals, batch.capability, batch.cycle, np.arange(rows, dtype=np.int32), unknown)
        return batch.left


BACKOFF_MIN: Final = 4
BACKOFF_MAX: Final = 1024
"""Bounds of a backoff, in cycles."""
CONSTRAINT_MS: Final = 1000
MAX_PAIRS: Final = 1 << 16

# Fates by the item that is not proposed again for some cycles; all others: the request row.
_PAIR = {Fate.BLACKLISTED, Fate.WRONG_PARTITION, Fate.LOCALITY, Fate.CONSTRAINT, Fate.NODE_FULL}
_NODE = {Fate.UNKNOWN_NODE, Fate.NODE_NOT_RUNNING, Fate.NODE_STALE, Fate.NODE_RESERVED}
_APPLICATION = {Fate.UNKNOWN_APPLICATION, Fate.FINISHED_ATTEMPT, Fate.STOPPED_ATTEMPT, Fate.INACTIVE_APPLICATION}
_NO_BACKOFF = {
    Fate.COMMITTED,
    Fate.OBSERVED,
    Fate.OVER_BATCH,
    Fate.LEASE_LOST,
    Fate.NOT_READY,
    Fate.NOT_OWNER,
    Fate.CHANGED,
    Fate.TRANSACTION,
    Fate.CLAIM,
}


class Rejections:
    """Backoff after rejections."""

    def __init__(self) -> None:
        self.excluded = PairMap()
        """(row, node) -> the first cycle that may propose the node for the row again (its low 31 bits)."""
        self.last_backoff = 0
        """The last cycle with an active backoff."""
        self._pairs = 0
        self._constrained: deque[tuple[int, int, int, int]] = deque()
        """Pairs excluded by a constraint: (RM time of the retry, row, node, cycle in `excluded`), earliest first."""

    def learn(self, view: View, batch: Records, positions: I32, fates: U8, cycle: int, now_ms: int) -> None:
        """Apply the outcomes of proposals of ``batch``.

        ``cycle`` is the number of the next cycle, ``now_ms`` the RM's time in the latest.
        """
        rows = view.rows
        for at in np.flatnonzero(fates):
            position, fate = int(positions[at]), int(fates[at])
            if not 0 <= position < len(batch) or fate in _NO_BACKOFF:
                continue
            row, node, app = batch[position][["row", "node", "application"]].item()
            level = int(rows["backoff_level"][row])
            until = cycle + min(BACKOFF_MIN << level, BACKOFF_MAX)
            rows["backoff_level"][row] = min(level + 1, 20)
            self.last_backoff = max(self.last_backoff, until)
            if fate in _PAIR:
                self._exclude(rows, row, node, until)
                if fate == Fate.CONSTRAINT:
                    self._constrained.append((now_ms + CONSTRAINT_MS, row, node, until & 0x7FFFFFFF))
            elif fate in _NODE:
                view.nodes["backoff_until"][node] = until
            elif fate in _APPLICATION:
                view.apps["backoff_until"][app] = until
            else:
                rows["backoff_until"][row] = until

    def release(self, now_ms: int) -> None:
        """Allow pairs again that a constraint excluded `CONSTRAINT_MS` ago; called before each cycle."""
        # A clock that stepped back must not prolong the exclusion.
        while self._constrained and not now_ms < self._constrained[0][0] <= now_ms + CONSTRAINT_MS:
            _, row, node, until = self._constrained.popleft()
            if self.excluded.find(row, node) == until:
                self.excluded.put(row, node, 0)

    def follow(self, before: Rejections, new_row: I32, new_node: I32, rows: Records, cycle: int) -> None:
        """Take over the backoffs of the model before a snapshot that are still active in ``cycle``.

        ``new_row`` and ``new_node`` map old indices to new ones (-1: none); ``rows`` are the new rows.
        """
        self.last_backoff = before.last_backoff
        pairs = before.excluded.pairs[before.excluded.pairs["key"] >= 0]
        pairs = pairs[pairs["value"] > (cycle & 0x7FFFFFFF)]
        row, node = new_row[pairs["key"] >> 32], new_node[pairs["key"] & 0xFFFFFFFF]
        stayed = (row >= 0) & (node >= 0)
        order = np.argsort(pairs["key"][stayed])
        for at in order.tolist():
            self._exclude(rows, int(row[stayed][at]), int(node[stayed][at]), int(pairs["value"][stayed][at]))
        moved = [(at_ms, int(new_row[r]), int(new_node[n]), until) for at_ms, r, n, until in before._constrained]
        self._constrained = deque(each for each in moved if each[1] >= 0 and each[2] >= 0)

    def _exclude(self, rows: Records, row: int, node: int, until: int) -> None:
        """Exclude ``node`` for ``row``. Too many pairs are all dropped, which only ends backoffs early."""
        if self._pairs >= MAX_PAIRS:
            self.excluded = PairMap()
            self._pairs = 0
            self._constrained.clear()
        self._pairs += 1
        rows["exclusions"][row] += 1
        self.excluded.put(row, node, until & 0x7FFFFFFF)


APPLICATIONS_MAX: Final = 4096
"""Maximum number of applications; the one with the oldest first rejection is dropped first."""


class RejectionCounts:
    """Rejections by application and fate, for display only."""

    def __init__(self) -> None:
        self.counts: dict[int, Counter[int]] = {}

    def note(self, batch: Records, positions: I32, fates: U8) -> None:
        """Count the outcomes of an answer, except commits (fate 0) and observed proposals."""
        for at in np.flatnonzero((fates != Fate.COMMITTED) & (fates != Fate.OBSERVED)).tolist():
            position, fate = int(positions[at]), int(fates[at])
            if not 0 <= position < len(batch):
                continue
            application = int(batch["application"][position])
            if application not in self.counts and len(self.counts) >= APPLICATIONS_MAX:
                del self.counts[next(iter(self.counts))]
            self.counts.setdefault(application, Counter())[fate] += 1

    def drop(self, application: int) -> None:
        """Drop an application."""
        self.counts.pop(application, None)

    def follow(self, before: RejectionCounts, apps: I32) -> None:
        """Take over the counts from before a snapshot; ``apps`` maps old application indices to new ones, or -1."""
        kept = renumbered(before.counts, apps)
        for application, counts in self.counts.items():
            kept.setdefault(application, Counter()).update(counts)
        self.counts = dict(list(kept.items())[-APPLICATIONS_MAX:])

"""Reserved nodes: nodes kept free for asks that are too large for what becomes free at once.

A reserved node is not a reservation of YARN's, which reserves resources of a node for one container and counts them as
used. Here nothing counts as used; the engine only places nothing else there (columns ``hold_row``, ``hold_node``).

An ask that some node could take if it were empty, but that fits on no node now, would starve if smaller asks took
every gap. So when a smaller ask was placed although the large one, had it fitted, would have come first, the node that
lacks least is reserved: nothing else goes there until the large ask fits, is withdrawn, or the time is over. Then a
node is chosen again, another one if the first still lacks as much.

A reserved node idles in part, so only a share of the nodes may be reserved. Where the shares of a tree are compared
there is no such bound, since the application that is served next is owed the node.

Says which applications and nodes a policy holds back on purpose, by whatever part.

Puts back what proposals have changed that nobody will commit (`observe_only`): they charge nobody.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I32, I64, Records
from treadle.compiled.functions import kernel
from treadle.config.settings import Hold
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, MAX_PARTITIONS, TOTAL, View
from treadle.policy.node_search import is_wanted, level_of
from treadle.policy.reasons import Reason, reasons
from treadle.policy.state import BIG_COUNT, BUNDLE, CURSOR, NOT_THERE, OFFERS, SCORED, DecideParameters, Scratch
from treadle.proposals import Held


@kernel
def missing_share(view: View, scratch: Scratch, row: int, node: int) -> float:
    """Return the largest share of the node's resources that is still missing for the ask; -1 if it can never fit."""
    missing = 0.0
    for r in range(len(view.counted)):
        if view.counted[r]:
            ask, total = view.capability[row, r], view.node_amounts[node, TOTAL, r]
            if ask > total:
                return -1.0
            if total > 0:
                missing = max(missing, (ask - scratch.available[node, r]) / total)
    return missing


@kernel
def best_hold(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> int:
    """Return the node with the least missing on which the ask would fit if it were empty, or -1.

    A node that was held for the row in vain comes last.
    """
    best, best_missing = -1, 1e18
    for node in range(len(view.nodes)):
        if view.nodes[node].state != 1 or view.nodes[node].partition != view.rows[row].partition:
            continue
        if view.nodes[node].hold_row >= 0 or view.nodes[node].backoff_until > parameters.decide:
            continue
        missing = missing_share(view, scratch, row, node)
        if missing < 0.0:
            continue
        if node == view.rows[row].hold_avoid:
            missing += 1e9
        if missing >= best_missing:
            continue
        if level_of(view, row, node) != NOT_THERE and is_wanted(view, scratch, parameters, row, node):
            best, best_missing = node, missing
    return best


class Holds:
    """What the columns of nodes and rows do not have about reserved nodes."""

    def __init__(self) -> None:
        self._missing: dict[int, float] = {}
        """For each reserved node the share of it that was missing when it was reserved."""

    def __len__(self) -> int:
        return len(self._missing)

    def follow(self, cluster: Cluster, nodes: I32) -> None:
        """Keep the reserved nodes that a snapshot's model took over; ``nodes`` has the new index of each old node."""
        now = {int(nodes[node]): missing for node, missing in self._missing.items()}
        held = cluster.nodes.at["hold_row"]
        self._missing = {node: missing for node, missing in now.items() if node >= 0 and held[node] >= 0}

    def forget_ended(self, cluster: Cluster, view: View, now_ms: int) -> bool:
        """Release nodes whose time is over, whose row has no ask any more, or that may not be used; True if any was."""
        released = False
        for node in sorted(self._missing):
            row = int(view.nodes["hold_row"][node])
            late = now_ms >= int(view.nodes["hold_until_ms"][node])
            still_asks = (
                row >= 0 and view.rows["hold_node"][row] == node and view.rows["count"][row] > view.rows["assumed"][row]
            )
            if still_asks and not late and view.nodes["state"][node] == 1 and cluster.classes.may(row, node):
                continue
            if still_asks and late:
                self._avoid_if_vain(cluster, view, row, node)
            if row >= 0 and view.rows["hold_node"][row] == node:
                view.rows["hold_node"][row] = -1
            view.nodes["hold_row"][node] = -1
            del self._missing[node]
            released = True
        return released

    def _avoid_if_vain(self, cluster: Cluster, view: View, row: int, node: int) -> None:
        free = view.node_amounts[node, FREE] - view.node_amounts[node, ASSUMED]
        ask, total = view.capability[row], np.maximum(view.node_amounts[node, TOTAL], 1)
        missing = float(np.max(np.where(cluster.counted == 1, (ask - free) / total, 0.0), initial=0.0))
        view.rows["hold_avoid"][row] = node if missing >= self._missing[node] else -1

    def choose(self, view: View, scratch: Scratch, parameters: DecideParameters, hold: Hold) -> None:
        """Reserve nodes for rows that were passed over in this decide, first come first served."""
        if hold.duration_ms == 0 or scratch.counters[BIG_COUNT] == 0:
            return
        left = self._may_be_held(view, 1.0 if parameters.compares_shares else hold.nodes_share)
        for at in range(int(scratch.counters[BIG_COUNT])):
            if len(self._missing) >= hold.nodes_max:
                return
            row = int(scratch.big["row"][at])
            partition = int(view.rows["partition"][row])
            if not scratch.big["overtaken"][at] or view.rows["hold_node"][row] >= 0 or left[partition] <= 0:
                continue
            node = int(best_hold(view, scratch, parameters, row))
            if node >= 0:
                view.nodes["hold_row"][node] = row
                view.nodes["hold_until_ms"][node] = parameters.now_ms + hold.duration_ms
                view.rows["hold_node"][row] = node
                self._missing[node] = float(missing_share(view, scratch, row, node))
                left[partition] -= 1

    def _may_be_held(self, view: View, share: float) -> I64:
        """Return by partition how many more nodes may be reserved: a share of those that may be used, at least one."""
        usable = view.nodes["partition"][view.nodes["state"] == 1]
        held = view.nodes["partition"][list(self._missing)]
        nodes = np.bincount(usable, minlength=MAX_PARTITIONS)
        return np.maximum((share * nodes).astype(np.int64), 1) - np.bincount(held, minlength=MAX_PARTITIONS)


_COUNTERS = [OFFERS, CURSOR, BUNDLE, SCORED]


class DecideCheckpoint:
    """What is kept from decide to decide, as it was before one. Assumed allocations are restored elsewhere."""

    def __init__(self, view: View, scratch: Scratch) -> None:
        """Remember it."""
        self._counters = scratch.counters[_COUNTERS]
        self._averages = scratch.averages.copy()
        self._deficits = scratch.shares.deficits.copy()
        self._waiting_ms = view.rows["waiting_since_ms"].copy()
        self._waiting_offers = view.rows["waiting_since_offers"].copy()
        self._held_for = view.nodes["hold_row"].copy()
        self._holds = view.rows["hold_node"].copy()

    def restore(self, view: View, scratch: Scratch, proposed: Records) -> None:
        """Put it back; of rows that wait for a nearer node only those that were ``proposed``: the others wait on."""
        scratch.counters[_COUNTERS] = self._counters
        scratch.averages[:] = self._averages
        if scratch.shares.deficits.shape == self._deficits.shape:  # else another policy took over meanwhile
            scratch.shares.deficits[:] = self._deficits
        rows = proposed["row"]
        view.rows["waiting_since_ms"][rows] = self._waiting_ms[rows]
        view.rows["waiting_since_offers"][rows] = self._waiting_offers[rows]
        view.nodes["hold_row"] = self._held_for
        view.rows["hold_node"] = self._holds


def held_back(view: View, scratch: Scratch) -> Held:
    """Return what is held back as of the latest decide, whose arrays ``scratch`` has."""
    size = min(len(view.rows), len(scratch.rows))
    rows = view.rows[:size]
    asks = (rows["application"] >= 0) & (rows["count"] > rows["assumed"])
    on_purpose = (Reason.GATE, Reason.GUARANTEED_TO_OTHERS, Reason.NEARER_NODE)
    waits = np.isin(reasons(view, scratch)["why"][:size], on_purpose)
    applications = rows["application"][asks & waits]
    largest = view.capability[:size][asks].max(axis=0, initial=0)
    return Held(np.unique(applications).astype(np.int32), _nodes(view, scratch, largest))


def _nodes(view: View, scratch: Scratch, largest: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return nodes that are held for an ask, keep room for a larger one, or are full by what is overbooked."""
    held = view.nodes["hold_row"] >= 0
    size = min(len(held), len(scratch.available))
    left, bound = scratch.available[:size], scratch.bound == 1
    if len(scratch.headroom):
        held[: len(scratch.headroom)] |= (left < scratch.headroom[:size])[:, bound].any(axis=1)
    overbooked = bound & (view.counted == 0)
    if overbooked.any():
        held[:size] |= (left < largest)[:, overbooked].any(axis=1)
    return np.flatnonzero(held & (view.nodes["name"] >= 0)).astype(np.int32)

"""Reserved nodes: kept free for requests that are too large for the gaps that become free one at a time.

A reserved node is not a YARN reservation, which books resources of a node for one container and counts them as used.
Here nothing counts as used; the engine only places nothing else there (columns ``hold_row``, ``hold_node``).

A request that fits on an empty node but on no node now would starve if smaller requests took every gap. So when a
smaller request was placed that the large one would have preceded, the node with the least missing is reserved: nothing
else is placed there until the large request fits, is withdrawn, or the reservation expires. Then a node is chosen
again, another one if the first still lacks as much.

A reserved node idles in part, so the reserved fraction of nodes is limited. There is no limit where shares of a tree
are compared, since the application that is served next is entitled to the node.

`held_back` lists the applications and nodes that a policy deliberately holds back, whichever part does.

`DecideCheckpoint` undoes changes by proposals that are never committed (`observe_only`): they charge no application.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I32, I64, Records
from treadle.compiled.functions import kernel
from treadle.config.settings import EngineReservation
from treadle.events import Held
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, MAX_PARTITIONS, TOTAL, View, renumbered
from treadle.policy.node_search import level_of, unwanted
from treadle.policy.state import (
    BIG_COUNT,
    BUNDLE,
    CURSOR,
    NOT_THERE,
    OFFERS,
    SCORED,
    DecideParameters,
    Reason,
    Scratch,
    reasons,
)


@kernel
def missing_share(view: View, row: int, node: int) -> float:
    """Return the largest fraction of the node's resources still missing for a row; -1 if it can never fit."""
    missing = 0.0
    for r in range(len(view.counted)):
        if view.counted[r]:
            ask, total = view.capability[row, r], view.node_amounts[node, TOTAL, r]
            if ask > total:
                return -1.0
            if total > 0:
                free = view.node_amounts[node, FREE, r] - view.node_amounts[node, ASSUMED, r]
                missing = max(missing, (ask - free) / total)
    return missing


@kernel
def best_hold(view: View, scratch: Scratch, parameters: DecideParameters, row: int) -> int:
    """Return the node with the least missing on which the request would fit if it were empty, or -1.

    The node of the row's last failed reservation comes last.
    """
    best, best_missing = -1, 1e18
    for node in range(len(view.nodes)):
        if view.nodes[node].state != 1 or view.nodes[node].partition != view.rows[row].partition:
            continue
        if view.nodes[node].hold_row >= 0 or view.nodes[node].backoff_until > parameters.decide:
            continue
        missing = missing_share(view, row, node)
        if missing < 0.0:
            continue
        if node == view.rows[row].hold_avoid:
            missing += 1e9
        if missing >= best_missing:
            continue
        if level_of(view, row, node) != NOT_THERE and not unwanted(view, scratch, parameters, row, node):
            best, best_missing = node, missing
    return best


class Holds:
    """State of reserved nodes that the tables of nodes and rows do not contain."""

    def __init__(self) -> None:
        self._missing: dict[int, float] = {}
        """The missing fraction of each reserved node at the time of reservation."""

    def __len__(self) -> int:
        return len(self._missing)

    def follow(self, cluster: Cluster, nodes: I32) -> None:
        """Keep the reservations that a snapshot's model took over; ``nodes`` maps old node indices to new ones."""
        held = cluster.nodes.at["hold_row"]
        self._missing = {node: missing for node, missing in renumbered(self._missing, nodes).items() if held[node] >= 0}

    def forget_ended(self, cluster: Cluster, view: View, now_ms: int) -> bool:
        """Release expired or unusable nodes and those without an open request; return whether there were any."""
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
                vain = missing_share(view, row, node) >= self._missing[node]
                view.rows["hold_avoid"][row] = node if vain else -1
            if row >= 0 and view.rows["hold_node"][row] == node:
                view.rows["hold_node"][row] = -1
            view.nodes["hold_row"][node] = -1
            del self._missing[node]
            released = True
        return released

    def choose(self, view: View, scratch: Scratch, parameters: DecideParameters, hold: EngineReservation) -> None:
        """Reserve nodes for rows that were overtaken in this cycle, first come first served."""
        if hold.duration_ms == 0 or scratch.counters[BIG_COUNT] == 0:
            return
        left = self._may_be_held(view, 1.0 if parameters.compares_shares else hold.nodes_fraction)
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
                self._missing[node] = float(missing_share(view, row, node))
                left[partition] -= 1

    def _may_be_held(self, view: View, share: float) -> I64:
        """Return by partition how many more nodes may be reserved: a fraction of the usable ones, at least one."""
        usable = view.nodes["partition"][view.nodes["state"] == 1]
        held = view.nodes["partition"][list(self._missing)]
        nodes = np.bincount(usable, minlength=MAX_PARTITIONS)
        return np.maximum((share * nodes).astype(np.int64), 1) - np.bincount(held, minlength=MAX_PARTITIONS)


_COUNTERS = [OFFERS, CURSOR, BUNDLE, SCORED]


class DecideCheckpoint:
    """The state across cycles as of the start of a cycle. Proposals in flight are restored elsewhere."""

    def __init__(self, view: View, scratch: Scratch) -> None:
        """Save the state."""
        self._counters = scratch.counters[_COUNTERS]
        self._averages = scratch.averages.copy()
        self._kept = scratch.shares.kept.copy()
        self._waiting_ms = view.rows["waiting_since_ms"].copy()
        self._waiting_offers = view.rows["waiting_since_offers"].copy()
        self._held_for = view.nodes["hold_row"].copy()
        self._holds = view.rows["hold_node"].copy()

    def restore(self, view: View, scratch: Scratch, proposed: Records) -> None:
        """Restore the state; for rows that wait for a nearer node only ``proposed`` ones: the others wait on."""
        scratch.counters[_COUNTERS] = self._counters
        scratch.averages[:] = self._averages
        if scratch.shares.kept.shape == self._kept.shape:  # otherwise another policy took over meanwhile
            scratch.shares.kept[:] = self._kept
        rows = proposed["row"]
        view.rows["waiting_since_ms"][rows] = self._waiting_ms[rows]
        view.rows["waiting_since_offers"][rows] = self._waiting_offers[rows]
        view.nodes["hold_row"] = self._held_for
        view.rows["hold_node"] = self._holds


def held_back(view: View, scratch: Scratch) -> Held:
    """Return the applications and nodes held back by the latest cycle, whose arrays are ``scratch``."""
    size = min(len(view.rows), len(scratch.rows))
    rows = view.rows[:size]
    asks = (rows["application"] >= 0) & (rows["count"] > rows["assumed"])
    on_purpose = (Reason.GATE, Reason.RESERVED_GUARANTEE, Reason.NEARER_NODE)
    waits = np.isin(reasons(view, scratch)["why"][:size], on_purpose)
    applications = rows["application"][asks & waits]
    largest = view.capability[:size][asks].max(axis=0, initial=0)
    return Held(np.unique(applications).astype(np.int32), _nodes(view, scratch, largest))


def _nodes(view: View, scratch: Scratch, largest: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return nodes that are reserved, keep headroom for a larger request, or are full with an overbooked resource."""
    held = view.nodes["hold_row"] >= 0
    size = min(len(held), len(scratch.available))
    left, bound = scratch.available[:size], scratch.bound == 1
    if len(scratch.headroom):
        held[: len(scratch.headroom)] |= (left < scratch.headroom[:size])[:, bound].any(axis=1)
    overbooked = bound & (view.counted == 0)
    if overbooked.any():
        held[:size] |= (left < largest)[:, overbooked].any(axis=1)
    return np.flatnonzero(held & (view.nodes["name"] >= 0)).astype(np.int32)

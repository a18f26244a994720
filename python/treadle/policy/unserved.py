"""Requests that go unserved: nodes reserved for large ones, and the engine's reports on the waiting ones.

A reserved node is not a YARN reservation, which books resources of a node for one container and counts them as used.
Here nothing counts as used; the engine only places nothing else there (columns ``hold_row``, ``hold_node``).

A request that fits on an empty node but on no node now would starve if smaller requests took every gap. So when a
smaller request was placed that the large one would have preceded, the node with the least missing is reserved: nothing
else is placed there until the large request fits, is withdrawn, or the reservation expires. Then a node is chosen
again, another one if the first still lacks as much.

A reserved node idles in part, so the reserved fraction of nodes is limited. There is no limit where shares of a tree
are compared, since the application that is served next is entitled to the node.

`held_back` lists the applications and nodes that a policy deliberately holds back, whichever part does.
`StarvationMonitor` reports queues below their entitlement, `too_large` requests larger than any node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64
from treadle.compiled.functions import kernel
from treadle.config.settings import EngineReservation
from treadle.errors import STALLED, percent
from treadle.events import ApplicationState, Held, NodeState
from treadle.model.cluster import Cluster
from treadle.model.tables import (
    ASSUMED,
    FREE,
    GUARANTEED,
    MAX_PARTITIONS,
    MAXIMUM,
    TOTAL,
    USED,
    View,
    chain,
    renumbered,
)
from treadle.policy.node_search import level_of, unwanted
from treadle.policy.shares.tree import FROM_QUEUE, Shares
from treadle.policy.state import BIG_COUNT, NOT_THERE, DecideParameters, Reason, Scratch, offered, reasons


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
        if view.nodes[node].state != NodeState.USABLE or view.nodes[node].partition != view.rows[row].partition:
            continue
        if view.nodes[node].hold_row >= 0 or view.nodes[node].backoff_until > parameters.cycle:
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
            usable = view.nodes["state"][node] == NodeState.USABLE
            if still_asks and usable and not late and cluster.classes.may(row, node):
                continue
            if still_asks and late:
                no_better = missing_share(view, row, node) >= self._missing[node]
                view.rows["hold_avoid"][row] = node if no_better else -1
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
        left = self._more_holds(view, 1.0 if parameters.compares_shares else hold.nodes_fraction)
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

    def _more_holds(self, view: View, fraction: float) -> I64:
        """Return by partition how many more nodes may be reserved: a fraction of the usable ones, at least one."""
        usable = view.nodes["partition"][view.nodes["state"] == NodeState.USABLE]
        held = view.nodes["partition"][list(self._missing)]
        nodes = np.bincount(usable, minlength=MAX_PARTITIONS)
        return np.maximum((fraction * nodes).astype(np.int64), 1) - np.bincount(held, minlength=MAX_PARTITIONS)


def held_back(view: View, scratch: Scratch) -> Held:
    """Return the applications and nodes held back by the latest cycle, whose arrays are ``scratch``."""
    size = min(len(view.rows), len(scratch.rows))
    rows = view.rows[:size]
    asks = (rows["application"] >= 0) & (rows["count"] > rows["assumed"])
    on_purpose = (Reason.GATE, Reason.RESERVED_GUARANTEE, Reason.NEARER_NODE)
    waits = np.isin(reasons(view, scratch)["why"][:size], on_purpose)
    applications = rows["application"][asks & waits]
    largest = view.capability[:size][asks].max(axis=0, initial=0)
    return Held(np.unique(applications).astype(np.int32), _held_nodes(view, scratch, largest))


def _held_nodes(view: View, scratch: Scratch, largest: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
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


LASTS_MS: Final = 120_000
"""How long a queue must be below its entitlement before it is reported, in milliseconds."""
CHECK_EVERY_MS: Final = 10_000
SHORT_BELOW: Final = 0.8
"""A queue is short below this fraction of its entitlement."""
CHECKED_MAX: Final = 64
NAMED_MAX: Final = 4
"""Maximum number of queues named at a time."""

Mask = npt.NDArray[np.bool_]


NOT_OTHERS: Final = (Reason.GATE, Reason.USER_LIMIT, Reason.TOO_LARGE)
"""Reasons that other queues' usage does not cause."""


class _Asks(NamedTuple):
    """Requests of a leaf in a partition that only the usage of other queues keeps waiting."""

    needs: Mask
    """Resources that the requests need."""
    wants: F64
    """Their total, as fractions of the partition."""
    step: float
    """Dominant share of the smallest request."""
    has_room: bool
    """Whether one of them fits on a node now."""


class StarvationMonitor:
    """The time since when queues are short, by path and label; snapshots do not reset it."""

    def __init__(self) -> None:
        """Create it without short queues."""
        self._since_ms: dict[tuple[str, str], int] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._checked_ms = -CHECK_EVERY_MS

    def conditions(self) -> Sequence[str]:
        """Return one line for each stalled queue; the line does not change while the queue is stalled."""
        return list(self._texts.values())[:NAMED_MAX]

    def check(self, cluster: Cluster, view: View, scratch: Scratch | None, now_ms: int, *, commits: bool) -> None:
        """Check for short queues, at intervals.

        Args:
            cluster: the model
            view: its tables
            scratch: scratch data of the latest cycle on this model, if any
            now_ms: the RM's time
            commits: whether the policy's proposals are committed; if not, the CapacityScheduler places
        """
        if 0 <= now_ms - self._checked_ms < CHECK_EVERY_MS:
            return
        self._checked_ms = now_ms
        since, texts = {}, {}
        for key, text in _StarvationCheck(cluster, view, scratch, commits=commits).short():
            since[key] = min(self._since_ms.get(key, now_ms), now_ms)
            if now_ms - since[key] >= LASTS_MS:
                texts[key] = self._texts.get(key, text)
        self._since_ms, self._texts = since, texts


class _StarvationCheck:
    """One check of a model."""

    def __init__(self, cluster: Cluster, view: View, scratch: Scratch | None, *, commits: bool) -> None:
        shares = None if scratch is None else scratch.shares
        self._view, self._shares = view, shares
        self._why = np.zeros(len(view.rows), np.uint8) if scratch is None else reasons(view, scratch)["why"]
        self._by_groups = not commits or shares is None or not len(shares.nodes) or _compares_groups(shares)
        """Whether a parent's usage may keep a queue waiting: groups are compared by their total usage."""
        self._names, self._types = cluster.names, cluster.types.names
        self._counted = view.counted == 1
        self._exists = np.flatnonzero(view.queues["exists"] == 1)
        self._entitlements: dict[int, F64] = {}
        self._rates: list[F64] = []
        for partition in range(len(cluster.names.partitions)):
            mine = (view.nodes["partition"] == partition) & (view.nodes["state"] != NodeState.GONE)
            total = np.where(self._counted, view.node_amounts[mine, TOTAL].sum(axis=0), 0).astype(np.float64)
            self._rates.append(np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0))

    def short(self) -> Iterator[tuple[tuple[str, str], str]]:
        """Yield each short queue as (path, label), with its description; at most `CHECKED_MAX` queues."""
        view, texts = self._view, self._names.texts
        for leaf, partition, rows in itertools.islice(self._low(), CHECKED_MAX):
            asks = self._asks(leaf, partition, rows)
            if asks is None or not asks.needs.any():
                continue
            used, entitled = self._used(leaf, partition), float(self._entitled(partition)[leaf])
            has = float(used[asks.needs].max())
            due = min(entitled, float((used + asks.wants)[asks.needs].max()))
            if has < SHORT_BELOW * due and has + asks.step <= due:
                label = texts[self._names.partitions[partition]]
                path = texts[int(view.queues["path"][leaf])]
                yield (path, label), self._text(leaf, partition, asks, (has, due), label)

    def _low(self) -> Iterator[tuple[int, int, I64]]:
        """Yield each leaf below its entitlement, the partition, and the rows of its requests there."""
        view, apps = self._view, self._view.apps
        rows = np.flatnonzero((view.rows["application"] >= 0) & (view.rows["count"] > view.rows["assumed"]))
        served = (apps["state"] == ApplicationState.ACTIVE) & (apps["queue"] >= 0)
        rows = rows[served[view.rows["application"][rows]]]
        key = apps["queue"][view.rows["application"][rows]].astype(np.int64) * MAX_PARTITIONS
        key += view.rows["partition"][rows]
        order = np.argsort(key, kind="stable")
        rows = rows[order]
        keys, starts = np.unique(key[order], return_index=True)
        if not len(keys):
            return
        needs = np.logical_or.reduceat(view.capability[rows] > 0, starts, axis=0) & self._counted
        ends = np.append(starts[1:], len(rows))
        for partition in range(len(self._rates)):
            mine = np.flatnonzero(keys % MAX_PARTITIONS == partition)
            leaves = keys[mine] // MAX_PARTITIONS
            amounts = view.limit_amounts[leaves, partition]
            used = np.where(needs[mine], (amounts[:, USED] + amounts[:, ASSUMED]) * self._rates[partition], 0.0)
            low = used.max(axis=1) < SHORT_BELOW * self._entitled(partition)[leaves] if len(mine) else mine > 0
            for at in mine[low].tolist():
                yield int(keys[at]) // MAX_PARTITIONS, partition, rows[starts[at] : ends[at]]

    def _asks(self, leaf: int, partition: int, rows: I64) -> _Asks | None:
        """Return the placeable requests of a leaf; None if there is none."""
        view, counted, rate = self._view, self._counted, self._rates[partition]
        nodes = (view.nodes["partition"] == partition) & (view.nodes["state"] == NodeState.USABLE)
        if not nodes.any() or not view.limit_known[leaf, partition]:
            return None
        amounts = view.limit_amounts[leaf, partition]
        # A parent's limit leaves no room: other queues use it.
        left = amounts[MAXIMUM] - amounts[USED] - amounts[ASSUMED]
        most = np.minimum(view.node_amounts[nodes, TOTAL].max(axis=0), left)
        rows = rows[~np.isin(self._why[rows], NOT_OTHERS)]
        rows = rows[(view.capability[rows] <= most)[:, counted].all(axis=1)]
        if not len(rows):
            return None
        ask = view.capability[rows]
        count = (view.rows["count"][rows] - view.rows["assumed"][rows])[:, None]
        free = (view.node_amounts[:, FREE] - view.node_amounts[:, ASSUMED])[nodes]
        least = ask[np.argmin((ask * rate).max(axis=1))]
        return _Asks(
            needs=((ask > 0) & counted).any(axis=0),
            wants=(count * ask * rate).sum(axis=0),
            step=float((least * rate).max()),
            has_room=bool((free >= least)[:, counted].all(axis=1).any()),
        )

    def _used(self, queues: int | I64, partition: int) -> F64:
        amounts = self._view.limit_amounts[queues, partition]
        return np.asarray((amounts[..., USED, :] + amounts[..., ASSUMED, :]) * self._rates[partition], np.float64)

    def _guaranteed(self, queues: int | I64, partition: int) -> Any:
        return (self._view.limit_amounts[queues, partition, GUARANTEED] * self._rates[partition]).max(axis=-1)

    def _entitled(self, partition: int) -> F64:
        """Return the entitlement of each queue: by weights of the policy's tree, otherwise the RM's guarantee."""
        if partition not in self._entitlements:
            guaranteed = self._view.limit_amounts[:, partition, GUARANTEED] * self._rates[partition]
            self._entitlements[partition] = _by_weights(self._shares, guaranteed.max(axis=1))
        return self._entitlements[partition]

    def _text(self, leaf: int, partition: int, asks: _Asks, shares: tuple[float, float], label: str) -> str:
        path = self._path(leaf)
        where = f" with label {label}" if label else ""
        what = f"has {percent(shares[0], '.1f')} of the {percent(shares[1], '.1f')} that it is entitled to{where}"
        room = (
            "nodes have room for it now"
            if asks.has_room
            else "no node has room now, and until containers end only preemption could give it more"
        )
        return f"{STALLED}{path} {what}: {self._cause(leaf, partition, asks)}, {room}"

    def _cause(self, leaf: int, partition: int, asks: _Asks) -> str:
        """Return why others go first: a parent counts usage of its other leaves, or other queues hold more."""
        parents = [*chain(self._view.queues, leaf, "parent")] if self._by_groups else []
        for queue in parents[-2:0:-1]:  # below the root, the topmost first
            used, guaranteed = self._used(queue, partition), self._guaranteed(queue, partition)
            most = int(np.argmax(used))
            if guaranteed > 0 and used[most] >= guaranteed and used[most] > float(used[asks.needs].max()):
                counts = f"{self._path(queue)} counts as {percent(used[most])} of {percent(guaranteed)}"
                return f"{counts} because of its {self._types[most]}, which it does not ask for"
        leaves = self._exists[self._view.queues["leaf"][self._exists] == 1]
        leaves = leaves[leaves != leaf]
        has = self._used(leaves, partition)[:, asks.needs].max(axis=1)
        due = self._guaranteed(leaves, partition)
        over = int(np.argmax(has - due)) if len(leaves) else -1
        if over < 0 or has[over] <= due[over]:
            return "other queues are within what they are guaranteed"
        return f"{self._path(leaves[over])} has {percent(has[over])}, and is guaranteed {percent(due[over])}"

    def _path(self, queue: int) -> str:
        return self._names.texts[int(self._view.queues["path"][queue])]


def _compares_groups(shares: Shares) -> bool:
    """Return whether queue groups are compared by their total usage: in a tree without aims for leaves."""
    return not len(shares.aims) and bool((shares.nodes["leaf"][1:] == 0).any())


def _by_weights(shares: Shares | None, guaranteed: F64) -> F64:
    """Return the shares that explicit weights on leaves' paths give; the RM's guarantees without such weights."""
    nodes = None if shares is None else shares.nodes
    if shares is None or nodes is None or len(nodes) < 2 or (nodes["given"][1:] == FROM_QUEUE).all():
        return guaranteed
    given, parent = nodes["given"], nodes["parent"]
    sums = np.zeros(len(nodes))
    np.add.at(sums, parent[1:], given[1:])
    parts = np.ones(len(nodes))
    for at in range(1, len(nodes)):
        parts[at] = parts[parent[at]] * given[at] / max(sums[parent[at]], 1e-12)
    entitled = np.zeros(len(guaranteed))
    leaves = nodes["leaf"] == 1
    entitled[nodes["queue"][leaves]] = parts[leaves]
    return entitled


def too_large(cluster: Cluster, view: View, scratch: Scratch | None, most: int) -> dict[int, str]:
    """Return applications with requests larger than any node of their partition, as the loop found, with the reason.

    Empty while the cluster has no node. Unusable nodes count: they may come back.

    Args:
        cluster: the model
        view: its tables
        scratch: scratch data of the latest cycle on this model, if any
        most: maximum number of applications
    """
    if scratch is None:
        return {}
    size = min(len(view.rows), len(scratch.rows))
    over = scratch.rows["why"][:size] == Reason.TOO_LARGE
    if len(cluster.names.partitions) > 1:  # The loop skips labels for which no queue has a limit.
        empty = np.ones(len(cluster.names.partitions), bool)
        empty[view.nodes["partition"][view.nodes["state"] != NodeState.GONE]] = empty[0] = False
        over |= empty[view.rows["partition"][:size]]
    rows = np.flatnonzero(over)
    if not len(rows) or (view.nodes["state"] == NodeState.GONE).all():
        return {}  # nearly always
    rows = rows[(view.rows["met"][rows] == 1) & (view.rows["count"][rows] > 0)]
    rows = rows[view.apps["state"][view.rows["application"][rows]] == ApplicationState.ACTIVE]
    firsts = np.unique(view.rows["application"][rows], return_index=True)[1]
    rows = rows[np.sort(firsts)[:most]]
    partitions = view.rows["partition"][rows].tolist()
    largest = {partition: _largest(view, scratch, partition) for partition in set(partitions)}
    chosen = zip(view.rows["application"][rows].tolist(), rows.tolist(), partitions, strict=True)
    return {app: _why_too_large(cluster, view, row, largest[partition]) for app, row, partition in chosen}


def _largest(view: View, scratch: Scratch, partition: int) -> I64 | None:
    """Return the most that an empty node of a partition may give out by resource; None without nodes.

    -1 stands for resources without a bound.
    """
    here = (view.nodes["partition"] == partition) & (view.nodes["state"] != NodeState.GONE)
    if not here.any():
        return None
    largest = offered(view.node_amounts[here, TOTAL].max(axis=0), scratch.factors)
    return np.where(scratch.bound == 1, largest, -1)


def _why_too_large(cluster: Cluster, view: View, row: int, largest: I64 | None) -> str:
    partition, texts = int(view.rows["partition"][row]), cluster.names.texts
    label = texts[cluster.names.partitions[partition]]
    if largest is None:
        where = f"label {label}; ask without the label, or label a node"
        return f"no node has {where}" if label else "no node is without a label"
    amounts = zip(cluster.types.names, view.capability[row].tolist(), largest.tolist(), strict=True)
    over = ", ".join(f"{ask} {name}, where the largest has {most}" for name, ask, most in amounts if ask > most >= 0)
    where = f"label {label}" if label else "the cluster"
    return f"no node of {where} is as large as it asks: {over}; ask for less"

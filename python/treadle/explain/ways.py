"""What would let an ask start: nodes and queues whose containers end next, labels with room."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I64
from treadle.events import NodeState
from treadle.explain.causes import Cause, Way, Why
from treadle.explain.ends import Ends
from treadle.explain.limits import queues_up
from treadle.explain.nodes import NodesOfAsk
from treadle.explain.situation import Situation
from treadle.model.tables import ASSUMED, MAXIMUM, USED
from treadle.words import counted, in_time

WAYS_MAX: Final = 3
"""Nodes, and queues, that are named."""


def next_nodes(situation: Situation, ends: Ends, nodes: NodesOfAsk) -> Iterator[Way]:
    """Yield the nodes on which containers that end make room soonest, whoever then takes it."""
    full, free = nodes.by_reason["full"] | nodes.by_reason["kept_free"], situation.available()
    needed = nodes.headroom_needed()
    expected_ms = ends.expected_ms()
    here = np.flatnonzero(full[ends.node] & np.isfinite(expected_ms))
    order = here[np.lexsort((expected_ms[here], ends.node[here]))]
    if not len(order):
        return
    node = ends.node[order]
    freed = np.cumsum(ends.amounts[order], axis=0)
    first = np.searchsorted(node, node)  # where the node's own begin
    before = np.where((first > 0)[:, None], freed[first - 1], 0)
    enough = (free[node] + freed - before >= needed[node])[:, situation.view.counted == 1].all(axis=1)
    place = np.flatnonzero(enough)
    found, at = np.unique(node[place], return_index=True)
    in_ms = expected_ms[order[place[at]]]
    for one in np.argsort(in_ms, kind="stable")[:WAYS_MAX].tolist():
        name, soon = situation.node_name(int(found[one])), float(in_ms[one])
        text = f"on {name} containers are expected to have made room {_soon(soon)}"
        yield Way("node", name, round(soon), text)


def next_queues(
    situation: Situation, ends: Ends, row: int, usable: npt.NDArray[np.bool_], causes: Collection[Cause]
) -> Iterator[Way]:
    """Yield the queues whose containers must end: those above the ask if they are full, else who has its nodes."""
    leaf = int(situation.view.apps["queue"][situation.view.rows["application"][row]])
    limited = {cause.why for cause in causes} & {Why.QUEUE_MAXIMUM, Why.USER_LIMIT}
    here = ends.queue == leaf if limited else usable[ends.node]
    queues, counts = np.unique(ends.queue[here & (ends.queue >= 0)], return_counts=True)
    for one in np.argsort(-counts, kind="stable")[:WAYS_MAX].tolist():
        soon = float(ends.those(np.flatnonzero(here & (ends.queue == queues[one]))).expected_ms().min())
        path, count = situation.queue_path(int(queues[one])), counted(int(counts[one]), "container")
        where = "runs" if counts[one] == 1 else "run"
        where += "" if limited else " on nodes that may serve it"
        ends_in = f"the next ends {_soon(soon)}" if np.isfinite(soon) else "nobody knows how long"
        yield Way("queue", path, round(soon) if np.isfinite(soon) else None, f"{count} of {path} {where}; {ends_in}")


def labels_with_room(situation: Situation, row: int, nodes: NodesOfAsk) -> Iterator[Way]:
    """Yield other partitions in which nodes have room for the ask now, and the queue may use them."""
    view, counts = situation.view, situation.view.counted == 1
    leaf = int(view.apps["queue"][view.rows["application"][row]])
    own = int(view.rows["partition"][row])
    fits = (situation.available() >= nodes.capability)[:, counts].all(axis=1)
    fits &= (view.nodes["state"] == NodeState.USABLE) & nodes.chosen
    for partition in range(len(situation.partitions)):
        count = int(np.count_nonzero(fits & (view.nodes["partition"] == partition)))
        if partition != own and count and _may_use(situation, leaf, partition, nodes.capability):
            name = situation.partition_name(partition)
            what = f"label {name}" if name else "no label"
            yield Way("label", name, None, f"with {what} it would have room on {counted(count, 'node')} now")


def _may_use(situation: Situation, leaf: int, partition: int, capability: I64) -> bool:
    view, counts = situation.view, situation.view.counted == 1
    for queue in queues_up(situation, leaf):
        if view.limit_known[queue, partition]:
            amounts = view.limit_amounts[queue, partition]
            if (amounts[USED] + amounts[ASSUMED] + capability > amounts[MAXIMUM])[counts].any():
                return False
    return bool(view.limit_known[leaf, partition])


def _soon(in_ms: float) -> str:
    return f"in about {in_time(in_ms)}" if in_ms else "any moment"

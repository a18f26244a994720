"""What would let an ask start: queues whose containers must end, labels with room."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I32, I64
from treadle.events import NodeState
from treadle.explain.causes import Cause, Verdict, Way, Why
from treadle.explain.limits import queues_of_all, queues_up
from treadle.explain.nodes import NodesOfAsk
from treadle.explain.situation import Situation
from treadle.model.tables import ASSUMED, MAXIMUM, USED
from treadle.words import counted

QUEUES_MAX: Final = 3
"""Queues that are named."""
_OF_ROOM: Final = {Why.NODES_FULL, Why.NODES_KEPT_FREE, Why.NODES_RESERVED}
_MAY_SERVE: Final = ("rejected", "reserved", "full", "kept_free", "would_do")


class Running(NamedTuple):
    """The containers that run as tasks, in no order; masters are none."""

    node: I32
    application: I32
    queue: I32

    @classmethod
    def of(cls, situation: Situation) -> Running:
        """Return those of a model."""
        view = situation.view
        live = view.task_index["value"][view.task_index["key"] >= 0]
        node, group = view.tasks["node"][live], view.tasks["group"][live]
        here = (view.groups["application"][group] >= 0) & (view.nodes["state"][node] != NodeState.GONE)
        application = view.groups["application"][group[here]]
        return cls(node[here], application, view.apps["queue"][application])


def ways_of(
    situation: Situation, running: Running, row: int, nodes: NodesOfAsk, causes: Collection[Cause]
) -> tuple[Way, ...]:
    """Return what would let an ask start, of what can be known without a guess how long containers run."""
    return (*_containers_to_end(situation, running, row, nodes, causes), *_labels_with_room(situation, row, nodes))


def _containers_to_end(
    situation: Situation, running: Running, row: int, nodes: NodesOfAsk, causes: Collection[Cause]
) -> Iterator[Way]:
    """Yield the queues some of whose containers must end, those with the most containers first."""
    if any(cause.verdict != Verdict.WAITING for cause in causes):
        return
    view, reasons = situation.view, {cause.why for cause in causes}
    application = int(view.rows["application"][row])
    leaf, user = int(view.apps["queue"][application]), int(view.apps["user"][application])
    # a queue that may have everything is full when nodes are
    full = {cause.of for cause in causes if cause.why == Why.QUEUE_MAXIMUM} - queues_of_all(situation, row)
    whose, where = "", ""
    if Why.USER_LIMIT in reasons:
        here = (running.queue == leaf) & (view.apps["user"][running.application] == user)
        whose = f"user {situation.texts[user]} in "
    elif full:
        here = _below(situation, running.queue, full)
    elif reasons & _OF_ROOM:
        here = np.logical_or.reduce([nodes.by_reason[reason] for reason in _MAY_SERVE])[running.node]
        where = " on nodes that may serve it"
    else:
        return
    queues, counts = np.unique(running.queue[here & (running.queue >= 0)], return_counts=True)
    for one in np.argsort(-counts, kind="stable")[:QUEUES_MAX].tolist():
        path, count = situation.queue_path(int(queues[one])), int(counts[one])
        runs = "runs" if count == 1 else "run"
        yield Way("queue", path, f"containers of {whose}{path} end: {count} {runs}{where}")


def _below(situation: Situation, leaves: I32, paths: Collection[str]) -> npt.NDArray[np.bool_]:
    """Say which of these leaves are, or are below, a queue with one of these paths."""
    known = np.unique(leaves[leaves >= 0]).tolist()
    chosen = [leaf for leaf in known if any(situation.queue_path(up) in paths for up in queues_up(situation, leaf))]
    return np.isin(leaves, chosen)


def _labels_with_room(situation: Situation, row: int, nodes: NodesOfAsk) -> Iterator[Way]:
    """Yield other partitions in which nodes have room for the ask now, and the queue may use them."""
    view = situation.view
    leaf = int(view.apps["queue"][view.rows["application"][row]])
    own = int(view.rows["partition"][row])
    fits = (situation.available() >= nodes.capability)[:, situation.binds()].all(axis=1)
    fits &= (view.nodes["state"] == NodeState.USABLE) & nodes.allowed
    for partition in range(len(situation.partitions)):
        count = int(np.count_nonzero(fits & (view.nodes["partition"] == partition)))
        if partition != own and count and _may_use(situation, leaf, partition, nodes.capability):
            name = situation.partition_name(partition)
            what = f"label {name}" if name else "no label"
            yield Way("label", name, f"with {what} it would have room on {counted(count, 'node')} now")


def _may_use(situation: Situation, leaf: int, partition: int, capability: I64) -> bool:
    view, counts = situation.view, situation.view.counted == 1
    for queue in queues_up(situation, leaf):
        if view.limit_known[queue, partition]:
            amounts = view.limit_amounts[queue, partition]
            if (amounts[USED] + amounts[ASSUMED] + capability > amounts[MAXIMUM])[counts].any():
                return False
    return bool(view.limit_known[leaf, partition])

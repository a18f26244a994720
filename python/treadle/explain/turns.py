"""Which queue goes before a leaf, and why: by the aims of leaves, or by the shares of queues, level by level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I32
from treadle.explain.situation import Decided, Situation
from treadle.model.tables import ASSUMED, GUARANTEED, TOTAL, USED
from treadle.policy.share_state import AIM, AIMS, STEP
from treadle.policy.shares.aims import turn

AIMING: Final = (
    "goes first: it has {has:.1%} of the {goal:.1%} that the share aims at, {own} {own_has:.1%} of {own_goal:.1%}"
)

_turn: Any = getattr(turn, "py_func")  # noqa: B009
"""The compiled rule, as Python calls it."""


def turn_of(situation: Situation, leaf: int, partition: int) -> str:
    """Return which queue goes before a leaf in a partition and why, or that none does; empty if that is not known."""
    scratch = situation.scratch
    if scratch is None or leaf < 0:
        return ""
    if partition < len(scratch.aims):
        return _by_aims(situation, scratch, leaf, partition)
    if len(scratch.share_nodes) == 0 or (scratch.share_nodes["leaf"][1:] == 0).any():
        return _by_levels(situation, leaf, partition)
    return ""


def _waiting(situation: Situation) -> I32:
    """Return the leaves with applications that wait for containers."""
    apps = situation.view.apps
    waits = (apps["state"] == 1) & (apps["pending"] > apps["assumed_count"]) & (apps["queue"] >= 0)
    return np.unique(apps["queue"][waits]).astype(np.int32)


def _rates(situation: Situation, partition: int) -> F64:
    """Return 1 / what a partition has, by resource; 0 for those that are not counted."""
    view = situation.view
    mine = (view.nodes["partition"] == partition) & (view.nodes["state"] != 0)
    total = np.where(view.counted == 1, view.node_amounts[mine, TOTAL].sum(axis=0), 0).astype(np.float64)
    return np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)


def _by_aims(situation: Situation, scratch: Decided, leaf: int, partition: int) -> str:
    """As `treadle.policy.shares.aims`: who has the least part of its aim goes first."""
    rates, nodes = _rates(situation, partition), scratch.share_nodes
    queues = nodes["queue"][nodes["leaf"] == 1]
    places = dict(zip(queues.tolist(), np.flatnonzero(nodes["leaf"] == 1).tolist(), strict=True))
    if leaf not in places:
        return ""

    def standing(queue: int) -> tuple[float, float, float]:
        """Return the queue's turn, what it has and its aim."""
        aims = scratch.aims[partition, places[queue]]
        entitled = float(nodes["entitled"][places[queue]])
        goal = max(float(aims[AIM]), entitled, 1e-12)
        amounts = situation.view.limit_amounts[queue, partition]
        used = (amounts[USED] + amounts[ASSUMED]) * rates
        needed = (aims[AIMS:] > 0) | (aims[STEP] == 0)
        has = float(used[needed].max(initial=0.0))
        return float(_turn(has, float(aims[STEP]), entitled, goal)), has, goal

    own, path = standing(leaf), situation.queue_path(leaf)
    ahead = [(standing(queue), queue) for queue in _waiting(situation).tolist() if queue != leaf and queue in places]
    first = min(ahead, default=None)
    if first is None or own[0] <= first[0][0]:
        return f"{path} goes before all other queues: it has {own[1]:.1%} of the {own[2]:.1%} that the share aims at"
    text = AIMING.format(has=first[0][1], goal=first[0][2], own=path, own_has=own[1], own_goal=own[2])
    return f"{situation.queue_path(first[1])} {text}"


def _by_levels(situation: Situation, leaf: int, partition: int) -> str:
    """Name the topmost queue above the leaf, or the leaf itself, before which a sibling goes by its share."""
    view, waiting = situation.view, _waiting(situation).tolist()
    below = {queue for each in waiting for queue in _up(situation, each)}
    for queue in [*_up(situation, leaf)][-2::-1]:
        siblings = np.flatnonzero(
            (view.queues["exists"] == 1) & (view.queues["parent"] == view.queues["parent"][queue])
        )
        ahead = [
            (*_share_of(situation, each, partition), each)
            for each in siblings.tolist()
            if each in below and each != queue
        ]
        own = _share_of(situation, queue, partition)
        if ahead and (first := min(ahead))[0] < own[0]:
            text = f"{situation.queue_path(first[3])} goes first: it counts as {first[1]:.1%} of {first[2]:.1%}"
            return f"{text}, {situation.queue_path(queue)} as {own[1]:.1%} of {own[2]:.1%}"
    return f"{situation.queue_path(leaf)} goes before all other queues"


def _up(situation: Situation, queue: int) -> Iterator[int]:
    while queue >= 0:
        yield queue
        queue = int(situation.view.queues["parent"][queue])


def _share_of(situation: Situation, queue: int, partition: int) -> tuple[float, float, float]:
    """Return by what a queue is compared, its share, and what that is a part of."""
    scratch = situation.scratch
    if scratch is not None and len(scratch.share_nodes):
        found = scratch.share_nodes[scratch.share_nodes["queue"] == queue]
        if len(found):
            return float(found["key"][0]), float(found["share"][0]), abs(float(found["weight"][0]))
    rates, amounts = _rates(situation, partition), situation.view.limit_amounts[queue, partition]
    used = float(((amounts[USED] + amounts[ASSUMED]) * rates).max())
    guaranteed = float((amounts[GUARANTEED] * rates).max())
    return used / max(guaranteed, 1e-12), used, guaranteed

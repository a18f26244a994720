"""The next application of a leaf: first in, first out, from a heap of keys, or from levels.

Orders by keys computed once per cycle need no compiled step; YARN's fair ordering policy follows usage, and levels
share a leaf by weights (multi-level feedback queue).
"""

from __future__ import annotations

from math import log, log1p
from typing import Final, Literal

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, Records
from treadle.compiled.functions import inner
from treadle.config.parts import Parameters, Traits
from treadle.model.cluster import Cluster
from treadle.model.queues import FAIR, FIFO
from treadle.model.tables import ASSUMED, USED, View
from treadle.policy.parts import BY_DURATIONS, Order
from treadle.policy.state import CLUSTER, FINISH, LEVELS, DecideParameters, Scratch
from treadle.policy.work import Jobs


class FifoOrder(Order, kind="fifo", traits=Traits(compares_priorities=True)):
    """The application with the highest priority first, then the one that came first."""

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Use `FIFO` in every leaf."""
        leaves["order"] = FIFO


class LasOrder(Order, kind="las"):
    """The application that has used the least so far: dominant share of the cluster x time."""

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set the attained service at the start of the cycle."""
        key[:] = jobs.view.apps["service_ms"]


class QueueOrder(Order, kind="queue", traits=Traits(overrides=False, compares_priorities=True)):
    """Applications come in the order of their leaf's own ordering-policy: fifo, or fair, by size or not."""

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Copy the queues' ordering policies."""
        leaves["order"] = cluster.queues.at["order"]
        leaves["sized"] = cluster.queues.at["sized"]


class SrptOrder(Order, kind="srpt", traits=BY_DURATIONS):
    """The application with the least work left: over its remaining tasks the sum of duration x demands."""

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set the remaining work at the start of the cycle, without tasks that the gate holds back."""
        here = jobs.cluster.apps.in_use()
        key[here] = jobs.work()[here] * jobs.scratch.apps["part"][here]


RULES: Final = {"fair": FAIR, "finish": FINISH}
"""The number of each order whose keys follow usage while containers are placed."""

FOLLOW_USE: Final = (FAIR, FINISH)
"""These numbers, as compiled code needs them; `key_by_usage` computes the keys."""

BEFORE_ALL: Final = 1e15
"""More than any key."""


@inner
def key_by_usage(view: View, scratch: Scratch, leaf: int, app: int) -> float:
    """Return the memory used (MB); with size-based weight over log2(1 + used and requested) (FairOrderingPolicy).

    For the order `FINISH`: the given key; of an application that shares fairly, the memory used, moved before all given
    keys up to ``fair_up_to``, and after them beyond it.
    """
    magnitude = float(view.app_amounts[app, USED, 0] + view.app_amounts[app, ASSUMED, 0])
    if scratch.queues[leaf].order == FINISH:
        up_to = scratch.apps[app].fair_up_to
        if up_to == 0.0:
            return scratch.apps[app].key
        return magnitude - BEFORE_ALL if magnitude < up_to else magnitude + BEFORE_ALL
    if scratch.queues[leaf].sized and magnitude != 0.0:
        pending = max(view.apps[app].demand - view.app_amounts[app, ASSUMED, 0], 0)
        magnitude /= log1p(magnitude + pending) / log(2.0)
    return magnitude


class FairParameters(Parameters):
    """Parameters of the order `fair`."""

    size_based_weight: bool = Field(
        default=False, description="Divide the memory used by log2(1 + the memory used and asked for)."
    )


class FairOrder(Order, kind="fair", parameters=FairParameters):
    """The application that uses the least memory first, as YARN's FairOrderingPolicy."""

    steps = "fair"

    def __init__(self, parameters: FairParameters) -> None:
        self._sized = parameters.size_based_weight

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Use `FAIR` in every leaf, with the configured size-based weight."""
        leaves["sized"] = self._sized


@inner
def wants(view: View, scratch: Scratch, app: int) -> bool:
    """Return whether the application may still get containers in this cycle, other than for its AM."""
    if view.apps[app].awaiting_am:
        return False
    return scratch.apps[app].done == 0 and view.apps[app].pending > view.apps[app].assumed_count


@inner
def is_before(view: View, scratch: Scratch, a: int, b: int) -> bool:
    """Return whether ``a`` precedes ``b``: the smaller band, the smaller key, the earlier start, FIFO order."""
    if scratch.apps[a].band != scratch.apps[b].band:
        return scratch.apps[a].band < scratch.apps[b].band
    if scratch.apps[a].key != scratch.apps[b].key:
        return scratch.apps[a].key < scratch.apps[b].key
    if view.apps[a].start_time_ms != view.apps[b].start_time_ms:
        return view.apps[a].start_time_ms < view.apps[b].start_time_ms
    return scratch.apps[a].rank < scratch.apps[b].rank


@inner
def sift_down(view: View, scratch: Scratch, base: int, size: int, at: int) -> None:
    """Restore the heap at ``heap[base:base + size]`` below position ``at``."""
    heap = scratch.list
    while True:
        least = at
        for child in range(2 * at + 1, min(2 * at + 3, size)):
            if is_before(view, scratch, heap[base + child].turn, heap[base + least].turn):
                least = child
        if least == at:
            return
        lower = heap[base + least].turn
        heap[base + least].turn = heap[base + at].turn
        heap[base + at].turn = lower
        at = least


@inner
def next_application(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int) -> int:
    """Return the application to serve now, first those that await an AM container; -1 if the leaf has none.

    If it does not await one, its turn is at the leaf's ``cursor``; those that may follow it are up to ``end``: in a
    heap the applications in its upper part, not exactly the next ones; with levels, those of the current level.
    """
    last = scratch.queues[leaf + 1].first
    while scratch.queues[leaf].am_cursor < last:
        app = scratch.list[scratch.queues[leaf].am_cursor].application
        starts = view.apps[app].awaiting_am and view.apps[app].assumed_count == 0
        if starts and scratch.apps[app].done == 0 and view.apps[app].pending > 0:
            return app
        scratch.queues[leaf].am_cursor += 1
    if scratch.queues[leaf].order == LEVELS:
        return next_of_levels(view, scratch, leaf)
    if scratch.queues[leaf].order != FIFO:
        return next_of_heap(view, scratch, leaf)
    scratch.queues[leaf].end = last
    while scratch.queues[leaf].cursor < last:
        app = scratch.list[scratch.queues[leaf].cursor].turn
        if wants(view, scratch, app):
            return app
        scratch.queues[leaf].cursor += 1
    return -1


@inner
def next_of_heap(view: View, scratch: Scratch, leaf: int) -> int:
    """Return the application with the smallest key, after moving the one served last to its new position.

    The heap has the leaf's applications with open requests at the beginning.
    """
    base, follows = scratch.queues[leaf].first, scratch.queues[leaf].order in FOLLOW_USE
    if scratch.queues[leaf].end < 0:
        size = 0
        for at in range(base, scratch.queues[leaf + 1].first):
            app = scratch.list[at].application
            if wants(view, scratch, app):
                if follows:
                    scratch.apps[app].key = key_by_usage(view, scratch, leaf, app)
                scratch.list[base + size].turn = app
                size += 1
        scratch.queues[leaf].end = base + size
        for at in range(size // 2 - 1, -1, -1):
            sift_down(view, scratch, base, size, at)
    elif scratch.queues[leaf].end > base and follows:
        head = scratch.list[base].turn
        scratch.apps[head].key = key_by_usage(view, scratch, leaf, head)
        sift_down(view, scratch, base, scratch.queues[leaf].end - base, 0)
    while scratch.queues[leaf].end > base:
        head = scratch.list[base].turn
        if wants(view, scratch, head):
            return head
        scratch.queues[leaf].end -= 1
        scratch.list[base].turn = scratch.list[scratch.queues[leaf].end].turn
        sift_down(view, scratch, base, scratch.queues[leaf].end - base, 0)
    return -1


@inner
def cluster_share(view: View, scratch: Scratch, app: int) -> float:
    """Return an application's dominant share of the cluster, in-flight proposals included."""
    share = 0.0
    for r in range(len(view.counted)):
        if view.counted[r] and scratch.rates[CLUSTER, r] > 0.0:
            used = view.app_amounts[app, USED, r] + view.app_amounts[app, ASSUMED, r]
            share = max(share, used / scratch.rates[CLUSTER, r])
    return share


@inner
def build_levels(view: View, scratch: Scratch, leaf: int) -> bool:
    """List by level the open applications of the leaf's first band, and add up the usage of each level.

    Returns whether there are any.
    """
    base, count = scratch.queues[leaf].first, len(scratch.weights)
    levels = scratch.levels[leaf * count : (leaf + 1) * count]
    for level in range(count):
        levels[level].used = 0.0
        levels[level].end = 0
    band = 1 << 62
    for at in range(base, scratch.queues[leaf + 1].first):
        app = scratch.list[at].application
        scratch.apps[app].share = cluster_share(view, scratch, app)
        levels[level_of_key(scratch, app)].used += scratch.apps[app].share
        if wants(view, scratch, app):
            band = min(band, scratch.apps[app].band)
    for at in range(base, scratch.queues[leaf + 1].first):
        app = scratch.list[at].application
        if scratch.apps[app].band == band and wants(view, scratch, app):
            levels[level_of_key(scratch, app)].end += 1
    size = base
    for level in range(count):
        levels[level].cursor = size
        size += levels[level].end
        levels[level].end = levels[level].cursor
    for at in range(base, scratch.queues[leaf + 1].first):
        app = scratch.list[at].application
        if scratch.apps[app].band == band and wants(view, scratch, app):
            level = level_of_key(scratch, app)
            scratch.list[levels[level].end].turn = app
            levels[level].end += 1
    return size > base


@inner
def level_of_key(scratch: Scratch, app: int) -> int:
    """Return an application's level: its key, within the levels that there are."""
    return int(min(max(scratch.apps[app].key, 0.0), len(scratch.weights) - 1.0))


@inner
def next_of_levels(view: View, scratch: Scratch, leaf: int) -> int:
    """Return the first application of the nonempty level with the least usage for its weight; -1 if all are empty.

    Levels share the usage of the leaf's first band. Once that band has no open requests, the next one forms the levels.
    """
    count, weights, best = len(scratch.weights), scratch.weights, -1
    levels = scratch.levels[leaf * count : (leaf + 1) * count]
    served = scratch.queues[leaf].served
    if served >= 0:  # count the last proposals of its application
        app = scratch.list[scratch.queues[leaf].cursor].turn
        share = cluster_share(view, scratch, app)
        levels[served].used += share - scratch.apps[app].share
        scratch.apps[app].share = share
    while best < 0:
        if scratch.queues[leaf].served < 0 and not build_levels(view, scratch, leaf):
            return -1
        for level in range(count):
            while levels[level].cursor < levels[level].end:
                if wants(view, scratch, scratch.list[levels[level].cursor].turn):
                    break
                levels[level].cursor += 1
            if levels[level].cursor == levels[level].end:
                continue
            if best < 0 or levels[level].used / weights[level] < levels[best].used / weights[best]:
                best = level
        scratch.queues[leaf].served = best
    scratch.queues[leaf].cursor, scratch.queues[leaf].end = levels[best].cursor, levels[best].end
    return scratch.list[levels[best].cursor].turn


class MlfqParameters(Parameters):
    """Parameters of the order `mlfq`; defaults are those of SLearn."""

    levels: int = Field(default=10, ge=1, le=64, description="How many levels there are.")
    first_threshold_ms: int = Field(
        default=1_000_000, ge=1, le=2**53, description="The largest size, in task time, of the first level."
    )
    threshold_factor: float = Field(
        default=10.0, gt=1.0, le=1e6, description="Each further level's largest size is larger by this factor."
    )
    weight_factor: float = Field(
        default=10.0, ge=1.0, le=1e6, description="Each further level's weight is smaller by this factor."
    )
    size: Literal["estimated", "estimated_total", "attained_service"] = Field(
        default="estimated",
        description="What counts as size: the time that all tasks took and will take; the estimate of one times how "
        "many there are; or only the time so far.",
    )
    sampling_level: int = Field(
        default=1, ge=0, le=63, description="The level, from 0, of jobs whose pilots have not ended (gate: pilots)."
    )

    def uses_estimates(self) -> bool:
        """Return whether jobs are sized by estimates; attained service needs none."""
        return self.size != "attained_service"


class MlfqOrder(Order, kind="mlfq", parameters=MlfqParameters, traits=BY_DURATIONS):
    """Applications in levels by size: first in, first out within one, levels share the leaf by weights."""

    def __init__(self, parameters: MlfqParameters) -> None:
        levels = np.arange(parameters.levels)
        self.weights = tuple(float(weight) for weight in parameters.weight_factor ** -levels.astype(float))
        self.thresholds_ms = parameters.first_threshold_ms * parameters.threshold_factor ** levels[:-1].astype(float)
        self._size = parameters.size
        self.sampling_level = min(parameters.sampling_level, parameters.levels - 1)

    def orders(self, cluster: Cluster, leaves: Records) -> None:
        """Use `LEVELS` in every leaf."""
        leaves["order"] = LEVELS

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set each application's level."""
        here = jobs.cluster.apps.in_use()
        size_ms = (jobs.whole_ms() if self._size == "estimated_total" else jobs.view.apps["container_ms"])[here]
        if self._size == "estimated":
            size_ms = size_ms + jobs.left_ms()[here]
        level = jobs.scratch.apps["level"][here]
        key[here] = np.where(level < 0, np.searchsorted(self.thresholds_ms, size_ms), level)

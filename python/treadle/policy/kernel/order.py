"""Which application of a leaf comes next: those that await their AM first, then fifo or fair as the leaf is configured."""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING

from numba import njit

from treadle.model.queues import FAIR

if TYPE_CHECKING:
    from treadle.model.cluster import View
    from treadle.policy.kernel.scratch import Scratch


@njit(cache=True, nogil=True)
def wants(view: View, scratch: Scratch, app: int) -> bool:
    """May the application still get something in this decide?"""
    return scratch.application_done[app] == 0 and view.apps.pending[app] > view.apps.assumed_count[app]


@njit(cache=True, nogil=True)
def fair_key(view: View, app: int, sized: int) -> float:
    """Return memory used, divided by log2(1 + memory asked for) with size-based weight (YARN's FairOrderingPolicy)."""
    magnitude = float(view.apps.used[app, 0] + view.apps.assumed[app, 0])
    if sized and magnitude != 0.0:
        weight = log1p(max(view.apps.demand[app] - view.apps.assumed[app, 0], 0)) / log(2.0)
        if weight != 0.0:
            magnitude /= weight
    return magnitude


@njit(cache=True, nogil=True)
def is_before(view: View, scratch: Scratch, a: int, b: int) -> bool:
    """Does fair order put ``a`` before ``b``? The smaller key, then the earlier start, then fifo order."""
    if scratch.fair_key[a] != scratch.fair_key[b]:
        return scratch.fair_key[a] < scratch.fair_key[b]
    if view.apps.start_time_ms[a] != view.apps.start_time_ms[b]:
        return view.apps.start_time_ms[a] < view.apps.start_time_ms[b]
    return scratch.rank[a] < scratch.rank[b]


@njit(cache=True, nogil=True)
def sift_down(view: View, scratch: Scratch, base: int, size: int, at: int) -> None:
    """Restore the heap at ``heap[base:base + size]`` below position ``at``."""
    heap = scratch.heap
    while True:
        least = at
        for child in range(2 * at + 1, min(2 * at + 3, size)):
            if is_before(view, scratch, heap[base + child], heap[base + least]):
                least = child
        if least == at:
            return
        heap[base + at], heap[base + least] = heap[base + least], heap[base + at]
        at = least


@njit(cache=True, nogil=True)
def build_heap(view: View, scratch: Scratch, leaf: int) -> None:
    """Make a heap of the leaf's applications that want something."""
    base, size = scratch.leaf_first[leaf], 0
    for at in range(base, scratch.leaf_first[leaf + 1]):
        app = scratch.leaf_applications[at]
        if not view.apps.awaiting_am[app] and wants(view, scratch, app):
            scratch.fair_key[app] = fair_key(view, app, view.queues.sized[leaf])
            scratch.heap[base + size] = app
            size += 1
    scratch.heap_size[leaf] = size
    for at in range(size // 2 - 1, -1, -1):
        sift_down(view, scratch, base, size, at)


@njit(cache=True, nogil=True)
def begin_leaf(scratch: Scratch, leaf: int) -> None:
    """Start at the head of a leaf's applications."""
    scratch.am_cursor[leaf] = scratch.leaf_first[leaf]
    scratch.cursor[leaf] = scratch.leaf_first[leaf]
    scratch.heap_size[leaf] = -1


@njit(cache=True, nogil=True)
def awaits_am(view: View, scratch: Scratch, app: int) -> bool:
    """Does the application await an AM container that is not proposed yet?"""
    return view.apps.awaiting_am[app] == 1 and view.apps.assumed_count[app] == 0 and wants(view, scratch, app)


@njit(cache=True, nogil=True)
def next_application(view: View, scratch: Scratch, leaf: int) -> int:
    """Return the application to serve now, or -1 if the leaf has none."""
    last = scratch.leaf_first[leaf + 1]
    while scratch.am_cursor[leaf] < last:
        app = scratch.leaf_applications[scratch.am_cursor[leaf]]
        if awaits_am(view, scratch, app):
            return app
        scratch.am_cursor[leaf] += 1
    if scratch.leaf_order[leaf] == FAIR:
        return next_fair(view, scratch, leaf)
    while scratch.cursor[leaf] < last:
        app = scratch.leaf_applications[scratch.cursor[leaf]]
        if not view.apps.awaiting_am[app] and wants(view, scratch, app):
            return app
        scratch.cursor[leaf] += 1
    return -1


@njit(cache=True, nogil=True)
def next_fair(view: View, scratch: Scratch, leaf: int) -> int:
    """Return the application with the least key, after putting the one served last where it belongs now."""
    if scratch.heap_size[leaf] < 0:
        build_heap(view, scratch, leaf)
    base = scratch.leaf_first[leaf]
    if scratch.heap_size[leaf] > 0:
        head = scratch.heap[base]
        scratch.fair_key[head] = fair_key(view, head, view.queues.sized[leaf])
        sift_down(view, scratch, base, scratch.heap_size[leaf], 0)
    while scratch.heap_size[leaf] > 0:
        head = scratch.heap[base]
        if wants(view, scratch, head):
            return head
        scratch.heap_size[leaf] -= 1
        scratch.heap[base] = scratch.heap[base + scratch.heap_size[leaf]]
        sift_down(view, scratch, base, scratch.heap_size[leaf], 0)
    return -1

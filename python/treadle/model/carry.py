"""Carries learned state across a snapshot, from the old model to the new one, by YARN's identifiers.

A snapshot reassigns all indices. Applications match by ID and attempt, requests by priority and allocation request ID,
nodes by name, queues by path, containers by number. Anything without a match has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find, pair
from treadle.events import INDEX_MAX, KEYS_AHEAD, KEYS_RESERVED, ApplicationState
from treadle.model.cluster import Cluster
from treadle.model.containers import group_of
from treadle.model.hints import HintTables, hint_row
from treadle.model.queues import ApplicationTable
from treadle.model.tables import View


@inner
def is_before(a: Records, row: int, b: Records, other: int) -> bool:
    """Return whether a request comes before another one by priority and allocation request ID."""
    if a[row].priority != b[other].priority:
        return bool(a[row].priority < b[other].priority)
    return bool(a[row].allocation_request_id < b[other].allocation_request_id)


@inner
def counterpart(old: View, new: View, row: int, app: int, start: int, taken: U8, row_index: Records) -> int:
    """Return the new row of a request of ``app`` (the application's new index); -1 if there is none.

    Rows match by priority and allocation request ID; among several equal ones by key, else in order. ``start`` is the
    first free row among those that do not come before the request.
    """
    same = find(row_index, pair(app, old.rows[row].key))
    if (
        same >= 0
        and not taken[same]
        and not (is_before(old.rows, row, new.rows, same) or is_before(new.rows, same, old.rows, row))
    ):
        return same
    return start if start >= 0 and not is_before(old.rows, row, new.rows, start) else -1


@inner
def carry_row(old: View, new: View, nodes: I32, row: int, at: int) -> None:
    """Carry over waiting time, backoff and the node reserved for a request."""
    new.rows[at].waiting_since_ms = old.rows[row].waiting_since_ms
    new.rows[at].waiting_since_offers = old.rows[row].waiting_since_offers
    new.rows[at].backoff_until = old.rows[row].backoff_until
    new.rows[at].backoff_level = old.rows[row].backoff_level
    avoided, held = old.rows[row].hold_avoid, old.rows[row].hold_node
    if avoided >= 0:
        new.rows[at].hold_avoid = nodes[avoided]
    if held >= 0 and nodes[held] >= 0:
        new.rows[at].hold_node = nodes[held]
        new.nodes[nodes[held]].hold_row = at
        new.nodes[nodes[held]].hold_until_ms = old.nodes[held].hold_until_ms


@kernel
def carry_rows(old: View, new: View, apps: I32, nodes: I32, rows: I32, taken: U8, row_index: Records) -> None:
    """Carry over learned state of requests that the snapshot repeats.

    ``apps`` and ``nodes`` map old indices to new ones (-1: none); the mapping of request rows is written to ``rows``.
    ``taken`` starts as 0 for each new row; ``row_index`` finds the new rows.
    """
    for app in range(len(apps)):
        if apps[app] < 0:
            continue
        row, at = old.apps[app].first_row, new.apps[apps[app]].first_row
        while row >= 0:
            while at >= 0 and (taken[at] or is_before(new.rows, at, old.rows, row)):
                at = new.rows[at].next
            new_row = counterpart(old, new, row, apps[app], at, taken, row_index)
            if new_row >= 0:
                taken[new_row] = 1
                rows[row] = new_row
                carry_row(old, new, nodes, row, new_row)
            row = old.rows[row].next


@kernel
def carry_ended(
    old: View, new: View, was: Records, now: Records, apps: I32, index: Records, free: I32, next_unused: I64
) -> None:
    """Carry over the number and durations of ended tasks; create missing groups.

    ``was`` and ``now`` are records by group: the groups themselves, or an additional table with the same rows.
    """
    for app in range(len(apps)):
        group = old.apps[app].first_group if apps[app] >= 0 else -1
        while group >= 0:
            if was[group].ended > 0:
                priority = old.groups[group].priority
                at = group_of(new.apps, new.groups, new.group_amounts, index, free, next_unused, apps[app], priority)
                now[at].ended += was[group].ended
                now[at].ended_ms += was[group].ended_ms
            group = old.groups[group].next


@inner
def old_task(old_index: Records, key: int, application: int, old_application: int) -> int:
    """Return a task's row in the old tables, or -1; ``key`` is its key in the new ones (see `task_key`)."""
    moved = key + ((old_application - application) << 40)
    return find(old_index, moved & 0x3FFFFFFFFFFFFFFF)


@kernel
def carry_inputs(old: View, new: View, apps: I32, old_index: Records) -> None:
    """Carry over the input sizes of running tasks; ``old_index`` finds them in the old tables."""
    for old_app in range(len(apps)):
        app = apps[old_app]
        group = new.apps[app].first_group if app >= 0 else -1
        while group >= 0:
            task = new.groups[group].first
            while task >= 0:
                before = old_task(old_index, new.tasks[task].key, app, old_app)
                if before >= 0:
                    new.tasks[task].input_bytes = old.tasks[before].input_bytes
                task = new.tasks[task].next
            group = new.groups[group].next


@inner
def hint_key(old: View, new: View, at: int, rows: I32, past: int, first_ahead: int) -> int:
    """Return the new key of a hint, -1 to drop it.

    A hint for outstanding requests moves to their new key, one for future requests keeps its key. A hint for requests
    that are fulfilled but whose tasks may still run gets the reserved key ``past``.
    """
    row = old.hints[at].row
    if row >= 0 and rows[row] >= 0:
        return int(new.rows[rows[row]].key)
    if old.hints[at].priority < 0:
        return int(old.hints[at].key) if old.hints[at].key >= first_ahead else -1
    return past if past < first_ahead else -1


@kernel
def carry_hints(
    old: View, new: View, model: HintTables, apps: I32, rows: I32, chain: I32, first_reserved: int, first_ahead: int
) -> None:
    """Carry over task hints into ``model``; ``chain`` is scratch space, one element per row.

    Frames never use request keys from ``first_reserved`` on; keys from ``first_ahead`` on belong to future stages.
    """
    for app in range(len(apps)):
        at = old.apps[app].first_hint if apps[app] >= 0 else -1
        count, past = 0, first_reserved
        while at >= 0:
            chain[count] = at
            count += 1
            at = old.hints[at].next
        for place in range(count - 1, -1, -1):  # keeps the order of the old list
            at = chain[place]
            key = hint_key(old, new, at, rows, past, first_ahead)
            if key < 0:
                continue
            made = hint_row(model, apps[app], key)
            new.hints[made].duration_ms = old.hints[at].duration_ms
            new.hints[made].deviation_ms = old.hints[at].deviation_ms
            new.hints[made].tasks = old.hints[at].tasks
            new.hints[made].claimed_ms = old.hints[at].claimed_ms
            new.hints[made].claimed_tasks = old.hints[at].claimed_tasks
            new.hints[made].score = old.hints[at].score
            new.hints[made].ranked = old.hints[at].ranked
            if key == past:
                past += 1
                new.hints[made].priority = old.hints[at].priority
                new.hints[made].tasks = -1
                new.hints[made].claimed_tasks = -1


K = TypeVar("K")

LEARNED: Final = ("backoff_until", "service_ms", "container_ms", "share", "charged", "master_since_ms", "input_bytes")
"""Application columns that frames do not contain."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The mapping of old indices to new ones; -1 for none."""

    apps: I32
    nodes: I32
    ended: I32
    """Old indices of the applications that have ended."""


def carry(old: Cluster, new: Cluster) -> Carried:
    """Carry learned state from the model before a snapshot; the whole snapshot must have been applied."""
    apps, nodes = _applications(old.apps, new.apps), _nodes(old, new)
    live = np.flatnonzero(apps >= 0)
    for column in LEARNED:
        new.apps.at[column][apps[live]] = old.apps.at[column][live]
    stayed = np.flatnonzero(nodes >= 0)
    new.nodes.at["backoff_until"][nodes[stayed]] = old.nodes.at["backoff_until"][stayed]
    new.charged_ms = old.charged_ms
    rows: I32 = np.full(len(old.requests.at), -1, np.int32)
    new.groups.make_room(old.groups.size)
    new.hints.make_room(old.hints.size)
    before, now = old.view(), new.view()
    carry_rows(before, now, apps, nodes, rows, np.zeros(len(new.requests.at), np.uint8), new.requests.index.pairs)
    groups, hints = new.groups, new.hints
    ends = before.groups, now.groups
    carry_ended(before, now, *ends, apps, groups.index.pairs, groups.free, groups.next_unused)
    groups.size = int(groups.next_unused[0])
    groups.has_inputs |= old.groups.has_inputs
    if old.groups.has_inputs:
        carry_inputs(before, now, apps, old.groups.tasks.index.pairs)
    chain: I32 = np.zeros(len(old.hints.at), np.int32)
    model = hints.tables(new.apps, new.requests)
    carry_hints(before, now, model, apps, rows, chain, INDEX_MAX - KEYS_RESERVED, INDEX_MAX - KEYS_AHEAD)
    hints.size = int(hints.next_unused[0])
    hints.has_claims |= old.hints.has_claims
    new.rejections.follow(old.rejections, rows, nodes, new.requests.at, new.cycle)
    new.own_tags.follow(old.own_tags, apps)
    new.rejection_counts.follow(old.rejection_counts, apps)
    # A moved application runs on under another engine: its end teaches nothing.
    here = (old.apps.at["state"] != int(ApplicationState.GONE)) & (old.apps.at["state"] != int(ApplicationState.MOVED))
    gone = here & (apps < 0)
    return Carried(apps, nodes, np.flatnonzero(gone).astype(np.int32))


def _applications(old: ApplicationTable, new: ApplicationTable) -> I32:
    """Return the new index of each old application attempt."""
    return _new_index(_attempts(old), _attempts(new), len(old.at))


def _new_index(old: Mapping[K, int], new: Mapping[K, int], size: int) -> I32:
    """Return the new index of each of ``size`` old ones, by identifier; -1 for none."""
    found: I32 = np.full(size, -1, np.int32)
    for identifier, at in old.items():
        found[at] = new.get(identifier, -1)
    return found


def _attempts(apps: ApplicationTable) -> dict[tuple[int, ...], int]:
    """Return the indices of all attempts that have not ended, by ID."""
    here = apps.at["state"][: apps.size]
    live = np.flatnonzero((here != int(ApplicationState.GONE)) & (here != int(ApplicationState.MOVED)))
    columns = (apps.at[name][live].tolist() for name in ("cluster_timestamp", "id", "attempt"))
    return dict(zip(zip(*columns, strict=True), live.tolist(), strict=True))


def _nodes(old: Cluster, new: Cluster) -> I32:
    """Return the new index of each old node. Nodes that share a name (several on a host) are not matched."""
    return _new_index(_by_name(old), _by_name(new), len(old.nodes.at))


def _by_name(cluster: Cluster) -> dict[str, int]:
    nodes, texts = cluster.nodes, cluster.names.texts
    live = np.flatnonzero(nodes.at["state"][: nodes.size] > 0).tolist()
    index_of: dict[str, int] = {}
    for at in live:
        name = texts[nodes.at["name"][at]]
        index_of[name] = -1 if name in index_of else at
    return {name: at for name, at in index_of.items() if at >= 0}

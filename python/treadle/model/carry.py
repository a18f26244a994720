"""What outlives a snapshot: what was learned, found again by YARN's ids in the model that the snapshot has made.

A snapshot gives out all indices anew. Applications are found again by their id and attempt, asks by priority and
allocation request id, nodes by name, queues by path, containers by their number. What is not found has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, Records
from treadle.events import INDEX_MAX, KEYS_AHEAD, KEYS_RESERVED, ApplicationState
from treadle.model import carry_compiled as kernel
from treadle.model.applications import ApplicationTable
from treadle.model.cluster import Cluster

LEARNED: Final = (
    *("cool_until", "service_ms", "container_ms", "share", "charged", "master_since_ms"),
    *("sampling", "sampling_level", "sampled_stage", "sampled_since_ms", "width", "pilot_percent"),
    *("pilots", "replacements", "pilots_ended", "pilots_ms", "pilots_squares", "pilot_mean_ms", "pilot_error"),
    *("sized", "sized_ms", "sized_bytes", "sized_squares", "sized_products", "sized_duration_squares"),
    *("input_bytes", "failures", "ended_badly"),
)
"""The columns of an application that no frame tells."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Where what was known is found again: the new index of each old one, -1 for none."""

    apps: I32
    nodes: I32
    ended: Records
    """The records of applications that are not there any more."""


def carry(old: Cluster, new: Cluster) -> Carried:
    """Take over what was learned from the model before a snapshot; all of the snapshot must have come."""
    apps, nodes = _applications(old.apps, new.apps), _nodes(old, new)
    live = np.flatnonzero(apps >= 0)
    for column in LEARNED:
        new.apps.at[column][apps[live]] = old.apps.at[column][live]
    stayed = np.flatnonzero(nodes >= 0)
    new.nodes.at["cool_until"][nodes[stayed]] = old.nodes.at["cool_until"][stayed]
    new.charged_ms = old.charged_ms
    rows: I32 = np.full(len(old.requests.at), -1, np.int32)
    new.tasks.make_room(old.tasks.size)
    new.told.make_room(old.told.size)
    before, now = old.view(), new.view()
    kernel.carry_rows(before, now, apps, nodes, rows, np.zeros(len(new.requests.at), np.uint8))
    tasks, told = new.tasks, new.told
    kernel.carry_groups(before, now, apps, tasks.index.pairs, tasks.free, tasks.next_unused)
    tasks.size = int(tasks.next_unused[0])
    kernel.carry_pilots(before, now, apps, old.tasks.task_index.pairs)
    chain: I32 = np.zeros(len(old.told.at), np.int32)
    kernel.carry_told(
        before,
        now,
        apps,
        rows,
        chain,
        told.index.pairs,
        told.free,
        told.next_unused,
        new.requests.index.pairs,
        INDEX_MAX - KEYS_RESERVED,
        INDEX_MAX - KEYS_AHEAD,
    )
    told.size = int(told.next_unused[0])
    told.has_claims |= old.told.has_claims
    new.rejections.follow(old.rejections, rows, nodes, new.requests.at, new.decide)
    gone = (old.apps.at["state"] != int(ApplicationState.GONE)) & (apps < 0)
    return Carried(apps, nodes, old.apps.at[gone])


def _applications(old: ApplicationTable, new: ApplicationTable) -> I32:
    """Return the new index of each old application attempt."""
    found: I32 = np.full(len(old.at), -1, np.int32)
    indices = {attempt: at for at, attempt in _attempts(new)}
    for at, attempt in _attempts(old):
        found[at] = indices.get(attempt, -1)
    return found


def _attempts(apps: ApplicationTable) -> list[tuple[int, tuple[int, int, int]]]:
    """Return index and id of all that have not ended."""
    live = np.flatnonzero(apps.at["state"][: apps.size] != int(ApplicationState.GONE))
    columns = (apps.at[name][live].tolist() for name in ("cluster_timestamp", "id", "attempt"))
    return list(zip(live.tolist(), zip(*columns, strict=True), strict=True))


def _nodes(old: Cluster, new: Cluster) -> I32:
    """Return the new index of each old node. Of several with one name, as on one host, none is found again."""
    found: I32 = np.full(len(old.nodes.at), -1, np.int32)
    names = _by_name(new)
    for name, at in _by_name(old).items():
        found[at] = names.get(name, -1)
    return found


def _by_name(cluster: Cluster) -> dict[str, int]:
    nodes, texts = cluster.nodes, cluster.names.texts
    live = np.flatnonzero(nodes.at["state"][: nodes.size] > 0).tolist()
    found: dict[str, int] = {}
    for at in live:
        name = texts[nodes.at["name"][at]]
        found[name] = -1 if name in found else at
    return {name: at for name, at in found.items() if at >= 0}

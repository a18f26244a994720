"""What the inner loop keeps while it makes one answer, and the numbers that steer it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.model.cluster import Cluster
from treadle.model.types import F64, I32, I64, U8

BIG_ROWS = 64
"""At most so many rows that fit no free node are remembered in a decide, as candidates for a held node."""

MEMOS = 8
"""So many asks that fit nowhere are remembered, to spare larger ones the search."""

# Places in `Scratch.counters`.
PLACED = 0
OPEN_NODES = 1
MEMO_COUNT = 2
BIG_COUNT = 3
CURSOR = 4  # the node at which the next search starts; lives from decide to decide
DELAYED = 5  # 1 if a row waits for a node that it prefers
COUNTERS = 6

FIRST_FIT = 0
PACKING = 1


class Knobs(NamedTuple):
    """Numbers that hold for one decide."""

    now_ms: int
    decide: int
    root: int
    cluster_nodes: int
    heartbeat_ms: int
    node_delay: int
    rack_delay: int  # -1: as many opportunities as asks x share of the cluster's nodes and racks that they name
    fit: int
    window: int


class Scratch(NamedTuple):
    """Arrays that the loop uses; nothing but the cursor outlives a decide."""

    counters: I64
    available: I64  # node, resource: free and not assumed
    node_open: U8  # 1: in the list of nodes to look at
    open_nodes: I32
    next_open: I32
    total: F64  # the cluster's resources
    inverse_total: F64  # 1 / the partition's resources, 0 for those not counted
    inverse_node: F64  # 1 / those of the largest node, 0 for those not counted
    least: I64  # the smallest ask of the partition in each resource
    memo: I64
    room: I64  # what the leaf being served may still get
    may: U8  # row: the gate's answer
    row_done: U8
    application_done: U8
    leaf_order: U8
    leaf_first: I32
    leaf_applications: I32
    rank: I32
    am_cursor: I32
    cursor: I32
    heap: I32
    heap_size: I32
    fair_key: F64
    live: I32  # leaves below a queue that may still get something
    used_share: F64
    guaranteed_share: F64
    big_row: I32
    big_at: I64  # proposals made when the row was found too big


def scratch_for(cluster: Cluster, old: Scratch | None) -> Scratch:
    """Return arrays large enough for the cluster, cleared where the loop expects it; the cursor is kept from ``old``."""
    nodes, apps, rows = cluster.nodes.columns, cluster.apps, cluster.requests.columns
    resources, queues = nodes.free.shape[1], len(cluster.queues.columns.parent)
    counters = old.counters if old is not None else np.zeros(COUNTERS, np.int64)
    counters[PLACED] = counters[DELAYED] = counters[BIG_COUNT] = 0
    applications = len(apps.columns.queue)
    return Scratch(
        counters=counters,
        available=nodes.free - nodes.assumed,
        node_open=np.zeros(len(nodes.name), np.uint8),
        open_nodes=np.empty(len(nodes.name), np.int32),
        next_open=np.empty(len(nodes.name) + 1, np.int32),
        total=np.zeros(resources),
        inverse_total=np.zeros(resources),
        inverse_node=np.zeros(resources),
        least=np.zeros(resources, np.int64),
        memo=np.zeros((MEMOS, resources), np.int64),
        room=np.zeros(resources, np.int64),
        may=np.zeros(len(rows.key), np.uint8),
        row_done=np.zeros(len(rows.key), np.uint8),
        application_done=np.zeros(applications, np.uint8),
        leaf_order=np.zeros(queues, np.uint8),
        leaf_first=apps.leaf_first,
        leaf_applications=apps.leaf_applications,
        rank=apps.rank,
        am_cursor=np.zeros(queues, np.int32),
        cursor=np.zeros(queues, np.int32),
        heap=np.empty(len(apps.leaf_applications), np.int32),
        heap_size=np.zeros(queues, np.int32),
        fair_key=np.zeros(applications),
        live=np.zeros(queues, np.int32),
        used_share=np.zeros(queues),
        guaranteed_share=np.zeros(queues),
        big_row=np.zeros(BIG_ROWS, np.int32),
        big_at=np.zeros(BIG_ROWS, np.int64),
    )

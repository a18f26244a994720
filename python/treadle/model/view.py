"""The tables of a cluster as kernels take them."""

from __future__ import annotations

from typing import NamedTuple

from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.structs import tables


@tables
class View(NamedTuple):
    """All tables, as kernels take them. Stale after the next event."""

    nodes: Records
    node_amounts: I64
    queues: Records
    children: I32
    limit_known: U8
    limit_amounts: I64
    user_amounts: I64
    apps: Records
    app_amounts: I64
    rows: Records
    capability: I64
    places: Records
    user_index: Records
    place_index: Records
    blacklist: Records
    excluded: Records
    first_node: I32
    counted: U8
    told: Records
    told_capability: I64
    groups: Records
    group_amounts: I64
    group_index: Records
    tasks: Records

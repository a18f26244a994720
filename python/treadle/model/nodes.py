"""Nodes: what they have, what is free, what is assumed on them, and for whom they are held."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle import events
from treadle.model.columns import Table
from treadle.model.names import Names
from treadle.model.types import I32, I64, U8


class NodeColumns(NamedTuple):
    """A row a node. ``free`` is what the RM says; ``assumed`` is proposed and not yet decided; both in the RM's units."""

    name: I32
    rack: I32
    partition: I32  # number of the partition
    state: U8
    total: I64
    free: I64
    assumed: I64
    next_same_name: I32  # another node of that name (several NodeManagers on a host), or -1
    hold_row: I32  # the request row that the node is held for, or -1
    hold_until_ms: I64
    cool_until: I64  # no proposals before this decide


class NodeTable(Table[NodeColumns]):
    """All nodes, by the shim's index."""

    def __init__(self, resources: int) -> None:
        i32, i64, amounts = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros((0, resources), np.int64)
        columns = NodeColumns(i32, i32, i32, np.zeros(0, np.uint8), amounts, amounts, amounts, i32, i32, i64, i64)
        super().__init__(NodeColumns._make, columns, {"name": -1, "next_same_name": -1, "hold_row": -1})

    def apply(self, event: events.Nodes, names: Names) -> None:
        """Take the state of nodes, absolute."""
        names.check(event.name_name)
        names.check(event.rack_name)
        partitions = names.partitions_of(event.partition_name)
        self.cover(event.node, "node")
        columns = self.columns
        at = event.node
        for row in np.flatnonzero(columns.name[at] != event.name_name):
            self._rename(int(at[row]), int(event.name_name[row]), names.first_node)
        columns.rack[at] = event.rack_name
        columns.partition[at] = partitions
        columns.state[at] = event.state
        columns.total[at] = event.total
        columns.free[at] = event.free

    def _rename(self, node: int, name: int, first_node: I32) -> None:
        """Move ``node`` from the list of nodes of its old name to that of ``name``."""
        columns = self.columns
        old = int(columns.name[node])
        if old >= 0:
            if first_node[old] == node:
                first_node[old] = columns.next_same_name[node]
            else:
                before = int(first_node[old])
                while columns.next_same_name[before] != node:
                    before = int(columns.next_same_name[before])
                columns.next_same_name[before] = columns.next_same_name[node]
        columns.name[node] = name
        columns.next_same_name[node] = first_node[name]
        first_node[name] = node

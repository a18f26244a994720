"""Nodes: what they have, what is free, what is assumed on them, and for whom they are held."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32
from treadle.model.tables import FREE, TOTAL, Names, Table

NODE: Final = np.dtype(
    [
        ("name", "i4"),
        ("rack", "i4"),
        ("partition", "i4"),  # number of the partition
        ("next_same_name", "i4"),  # another node of that name (several NodeManagers on a host), or -1
        ("hold_row", "i4"),  # the request row that the node is held for, or -1
        ("state", "u1"),
        ("hold_until_ms", "i8"),
        ("backoff_until", "i8"),  # no proposals before this decide
    ],
    align=True,
)


class NodeTable(Table):
    """All nodes, by the shim's index. Amounts: ASSUMED, FREE (as the RM says), TOTAL."""

    def __init__(self, resources: int) -> None:
        super().__init__(NODE, (3, resources), {"name": -1, "next_same_name": -1, "hold_row": -1})

    def apply(self, event: events.Nodes, names: Names) -> None:
        """Take the state of nodes, absolute."""
        names.check(event.name_name)
        names.check(event.rack_name)
        partitions = names.partitions_of(event.partition_name)
        self.cover(event.node, "node")
        index = event.node
        for row in np.flatnonzero(self.at["name"][index] != event.name_name):
            self._rename(int(index[row]), int(event.name_name[row]), names.first_node)
        self.at["rack"][index] = event.rack_name
        self.at["partition"][index] = partitions
        self.at["state"][index] = event.state
        self.amounts[index, TOTAL] = event.total
        self.amounts[index, FREE] = event.free

    def apply_free(self, event: events.NodesFree) -> None:
        """Take what is free on nodes, absolute."""
        self.cover(event.node, "node")
        self.amounts[event.node, FREE] = event.free

    def _rename(self, node: int, name: int, first_node: I32) -> None:
        """Move ``node`` from the list of nodes of its old name to that of ``name``."""
        following = self.at["next_same_name"]
        old = int(self.at["name"][node])
        if old >= 0:
            before = int(first_node[old])
            if before == node:
                first_node[old] = following[node]
            else:
                while following[before] != node:
                    before = int(following[before])
                following[before] = following[node]
        self.at["name"][node] = name
        following[node] = first_node[name]
        first_node[name] = node

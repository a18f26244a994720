"""Nodes and what restricts requests to them: node attributes, placement constraints and allocation tags."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import kernel
from treadle.events import NodeState
from treadle.model.tables import FREE, TOTAL, Names, Table, own, renumbered

NODE: Final = np.dtype(
    [
        ("name", "i4"),
        ("rack", "i4"),
        ("partition", "i4"),  # number of the partition
        ("next_same_name", "i4"),  # another node of that name (several NodeManagers on a host), or -1
        ("hold_row", "i4"),  # the request row that the node is reserved for, or -1
        ("state", "u1"),
        ("hold_until_ms", "i8"),
        ("backoff_until", "i8"),  # the first cycle that may use it again
    ],
    align=True,
)


@kernel
def apply_nodes(
    at: Records, amounts: I64, out: I32, part: I32, nodes: I32, name: I32, rack: I32, state: U8, total: I64, free: I64
) -> int:
    """Apply the states of nodes, except their names.

    Writes to ``out`` the rows in which more than the free resources changed; returns their number.
    """
    count = 0
    for i, node in enumerate(nodes):
        differs = at[node].name != name[i] or at[node].rack != rack[i]
        differs |= at[node].partition != part[i] or at[node].state != state[i]
        at[node].rack = rack[i]
        at[node].partition = part[i]
        at[node].state = state[i]
        for resource in range(amounts.shape[2]):
            differs |= amounts[node, TOTAL, resource] != total[i, resource]
            amounts[node, TOTAL, resource] = total[i, resource]
            amounts[node, FREE, resource] = free[i, resource]
        if differs:
            out[count] = i
            count += 1
    return count


class NodeTable(Table):
    """All nodes, by the shim's index. Amounts: ASSUMED, FREE (as reported by the RM), TOTAL."""

    def __init__(self, resources: int) -> None:
        super().__init__(NODE, (3, resources), {"name": -1, "next_same_name": -1, "hold_row": -1})

    def apply(self, event: events.Nodes, names: Names) -> I32:
        """Apply the state of nodes (absolute values); return those of which more than the free resources changed."""
        names.check(event.name_name)
        names.check(event.rack_name)
        self.cover(event.node, "node")
        given = [own(getattr(event, name)) for name in ("node", "name_name", "rack_name", "state", "total", "free")]
        changed, partitions = np.empty(len(event.node), np.int32), names.partitions_of(event.partition_name)
        changed = changed[: apply_nodes(self.at, self.amounts, changed, partitions, *given)]
        for row in changed.tolist():
            if self.at["name"][event.node[row]] != event.name_name[row]:
                self._rename(int(event.node[row]), int(event.name_name[row]), names.first_node)
        return event.node[changed]

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


class Attributes:
    """Node attributes: by node, a mapping of attribute to value."""

    def __init__(self) -> None:
        self.of_node: dict[int, dict[int, int]] = {}

    def apply(self, event: events.NodeAttributes, names: Names) -> None:
        """Apply attributes (absolute values)."""
        names.check(event.attribute_name)
        names.check(event.value_name)
        columns = (event.node, event.attribute_name, event.value_name, event.present)
        for node, attribute, value, present in zip(*(column.tolist() for column in columns), strict=True):
            if present:
                self.of_node.setdefault(node, {})[attribute] = value
            elif node in self.of_node:
                self.of_node[node].pop(attribute, None)

    def nodes_changed(self, event: events.Nodes) -> None:
        """Drop the attributes of removed nodes."""
        if self.of_node:
            for node in event.node[event.state == int(NodeState.GONE)].tolist():
                self.of_node.pop(node, None)


class Constraints:
    """Constraint texts by (application, key), -1 for an opaque one; and the allocation tags."""

    def __init__(self) -> None:
        self.text: dict[int, dict[int, int]] = {}
        self.tags: dict[int, dict[int, set[int]]] = {}

    def apply(self, event: events.Constraints, names: Names) -> None:
        """Apply constraints (absolute values)."""
        names.check(event.text_name)
        columns = (event.application, event.key, event.text_name, event.opaque)
        for application, key, text, opaque in zip(*(column.tolist() for column in columns), strict=True):
            self.text.setdefault(application, {})[key] = -1 if opaque else text
            self.tags.get(application, {}).pop(key, None)

    def apply_tags(self, event: events.AllocationTags, names: Names) -> None:
        """Apply allocation tags of constrained keys."""
        names.check(event.tag_name)
        columns = (event.application, event.key, event.tag_name)
        for application, key, tag in zip(*(column.tolist() for column in columns), strict=True):
            self.tags.setdefault(application, {}).setdefault(key, set()).add(tag)

    @property
    def known(self) -> bool:
        """Return whether there is any constraint or tag."""
        return bool(self.text or self.tags)

    def requests_changed(self, event: events.Requests) -> None:
        """Drop the constraints of keys without requests."""
        if self.text:
            for row in np.flatnonzero(event.count == 0).tolist():
                application, key = int(event.application[row]), int(event.key[row])
                self.text.get(application, {}).pop(key, None)
                self.tags.get(application, {}).pop(key, None)

    def drop(self, application: int) -> None:
        """Drop an application."""
        self.text.pop(application, None)
        self.tags.pop(application, None)


Tags = frozenset[str]


class AllocationTags:
    """Container tags by application and priority; None: unknown."""

    def __init__(self) -> None:
        self.of: dict[int, dict[int, Tags | None]] = {}

    def set_tags(self, application: int, priority: int, tags: Tags) -> None:
        """Set the tags of a request."""
        known = self.of.setdefault(application, {})
        known[priority] = tags if known.get(priority, tags) == tags else None

    def drop(self, application: int) -> None:
        """Drop an application."""
        self.of.pop(application, None)

    def follow(self, old: AllocationTags, apps: I32) -> None:
        """Take over the tags of priorities that a snapshot no longer contains; ``apps`` maps to the new indices."""
        for application, known in renumbered(old.of, apps).items():
            self.of[application] = known | self.of.get(application, {})

"""What asks may be bound to: attributes of nodes, placement constraints and allocation tags of request keys.

Texts are kept by their indices in `treadle.model.tables.Names`. No part of a policy reads them yet: the RM judges
constrained asks when it commits.
"""

from __future__ import annotations

import numpy as np

from treadle import events
from treadle.events import NodeState
from treadle.model.tables import Names


class Attributes:
    """The attributes of each node that has any: by node, then by attribute, the value."""

    def __init__(self) -> None:
        self.of_node: dict[int, dict[int, int]] = {}

    def apply(self, event: events.NodeAttributes, names: Names) -> None:
        """Take attributes, each absolute."""
        names.check(event.attribute_name)
        names.check(event.value_name)
        columns = (event.node, event.attribute_name, event.value_name, event.present)
        for node, attribute, value, present in zip(*(column.tolist() for column in columns), strict=True):
            if present:
                self.of_node.setdefault(node, {})[attribute] = value
            elif node in self.of_node:
                self.of_node[node].pop(attribute, None)

    def nodes_changed(self, event: events.Nodes) -> None:
        """Forget the attributes of nodes that are gone."""
        if self.of_node:
            for node in event.node[event.state == int(NodeState.GONE)].tolist():
                self.of_node.pop(node, None)


class Constraints:
    """Constraints by (application, key): the text, -1 for an opaque one; and the allocation tags."""

    def __init__(self) -> None:
        self.text: dict[int, dict[int, int]] = {}
        self.tags: dict[int, dict[int, set[int]]] = {}

    def apply(self, event: events.Constraints, names: Names) -> None:
        """Take constraints, absolute."""
        names.check(event.text_name)
        columns = (event.application, event.key, event.text_name, event.opaque)
        for application, key, text, opaque in zip(*(column.tolist() for column in columns), strict=True):
            self.text.setdefault(application, {})[key] = -1 if opaque else text
            self.tags.get(application, {}).pop(key, None)

    def apply_tags(self, event: events.AllocationTags, names: Names) -> None:
        """Take allocation tags of constrained keys."""
        names.check(event.tag_name)
        columns = (event.application, event.key, event.tag_name)
        for application, key, tag in zip(*(column.tolist() for column in columns), strict=True):
            self.tags.setdefault(application, {}).setdefault(key, set()).add(tag)

    @property
    def known(self) -> bool:
        """Is there any constraint or tag?"""
        return bool(self.text or self.tags)

    def requests_changed(self, event: events.Requests) -> None:
        """Forget the constraints of keys that ask for nothing any more."""
        if self.text:
            for row in np.flatnonzero(event.count == 0).tolist():
                application, key = int(event.application[row]), int(event.key[row])
                self.text.get(application, {}).pop(key, None)
                self.tags.get(application, {}).pop(key, None)

    def drop(self, application: int) -> None:
        """Forget an application."""
        self.text.pop(application, None)
        self.tags.pop(application, None)

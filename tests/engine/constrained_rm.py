"""The small ResourceManager with node attributes, requirements and placement constraints, judged by their own words."""

from __future__ import annotations

import json
from typing import Any

from tests.engine.fake_rm import Amounts, FakeRM
from tests.support.expressions import eligible

from treadle import events
from treadle.constraints import NodeFacts, parse
from treadle.engine.testing import rows
from treadle.events import Event

RM = "rm.yarn.io/"


def attribute(name: str, value: str, op: str = "EQ") -> dict[str, Any]:
    """Return YARN's constraint that an attribute has a value, or has not."""
    target = {"type": "NODE_ATTRIBUTE", "key": RM + name, "values": [value]}
    return {"scope": "node", "min": 1, "max": 1, "op": op, "targets": [target]}


def own(tag: str, least: int = 0, most: int = 2**31 - 1, scope: str = "node") -> dict[str, Any]:
    """Return YARN's constraint on how many containers of the application with a tag there are."""
    target = {"type": "ALLOCATION_TAG", "key": None, "values": [tag]}
    return {"scope": scope, "min": least, "max": most, "op": "NO_OP", "targets": [target]}


class ConstrainedRM(FakeRM):
    """Says what nodes have and applications need, and checks it."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: dict[int, dict[str, str]] = {}
        self.tags: dict[int, list[str]] = {}
        self.constraints: dict[tuple[int, int], dict[str, Any]] = {}
        self.allocation_tags: dict[tuple[int, int], list[str]] = {}
        self.lives: list[tuple[int, int, int]] = []
        """Application, priority and node of containers."""
        self._lives_told = 0
        self.tagged: list[tuple[int, int, str]] = []
        """Application, node and tag of containers."""

    def special(self, node: int, **attributes: str) -> None:
        """Give a node attributes."""
        self.attributes[node] = {RM + name: value for name, value in attributes.items()}

    def require(self, application: int, *texts: str, prefer: tuple[str, ...] = ()) -> None:
        """Let an application require and prefer nodes."""
        self.tags[application] = [f"treadle:require={text}" for text in texts]
        self.tags[application] += [f"treadle:prefer={text}" for text in prefer]
        self.change(application)

    def constrain(self, application: int, key: int, tree: dict[str, Any], *tags: str) -> None:
        """Let an ask be a scheduling request with a constraint and allocation tags."""
        self.applications[application].asks[key].constrained = True
        self.constraints[application, key] = tree
        self.allocation_tags[application, key] = list(tags)
        self.change(application)

    def _body(self) -> list[Event]:
        asked = [at for at in self.constraints if at[1] in self.applications[at[0]].asks]
        tagged = [(application, tag) for application, tags in self.tags.items() for tag in tags]
        told = [
            rows(events.NodeAttributes, self._texts, self._attribute_rows()),
            rows(events.Tags, self._texts, [{"application": at, "tag_name": tag} for at, tag in tagged]),
        ]
        after: list[Any] = [
            rows(
                events.Constraints,
                self._texts,
                [
                    {"application": at[0], "key": at[1], "text_name": json.dumps(self.constraints[at]), "opaque": 0}
                    for at in asked
                ],
            ),
            rows(
                events.AllocationTags,
                self._texts,
                [
                    {"application": at[0], "key": at[1], "tag_name": tag}
                    for at in asked
                    for tag in self.allocation_tags[at]
                ],
            ),
        ]
        begun = self.lives if not self._told else self.lives[self._lives_told :]
        first, self._lives_told = len(self.lives) - len(begun), len(self.lives)
        lives = [
            {
                "container": at,
                "application": app,
                "priority": priority,
                "node": node,
                "event": 1,
                "capability": self.none,
            }
            for at, (app, priority, node) in enumerate(begun, first + 1)
        ]
        body = self._in_order(super()._body(), told)
        fates = [body.pop()] if body and isinstance(body[-1], events.Fates) else []
        after.append(rows(events.Containers, self._texts, lives))
        return [*body, *(one for one in after if len(one.application)), *fates]

    def _attribute_rows(self) -> list[dict[str, Any]]:
        return [
            {"node": node, "attribute_name": name, "value_name": value, "present": 1}
            for node, attributes in self.attributes.items()
            for name, value in attributes.items()
        ]

    @staticmethod
    def _in_order(body: list[Event], told: list[Any]) -> list[Event]:
        """Return sections in the order of the wire: attributes after nodes, tags after applications."""
        attributes, tags = told
        found: list[Event] = []
        for event in body:
            found.append(event)
            if isinstance(event, events.Nodes) and len(attributes.node):
                found.append(attributes)
            if isinstance(event, events.Applications) and len(tags.application):
                found.append(tags)
        return found

    def facts(self, node: int) -> NodeFacts:
        """Return what a node is."""
        machine = self.nodes[node]
        totals = dict(zip(("memory-mb", "vcores"), machine.total, strict=False))
        return NodeFacts(self.attributes.get(node, {}), machine.rack, machine.name, machine.partition, totals)

    def why_not(self, application: int, key: int, node: int) -> str:
        """Return why a container may not be placed now, or nothing."""
        if not self.applications[application].awaiting_am:
            for tag in self.tags.get(application, []):
                name, _, text = tag.partition("=")
                if name == "treadle:require" and not eligible(parse(text), self.facts(node)):
                    return f"requires {text}"
            tree = self.constraints.get((application, key))
            if tree is not None and not self.holds(tree, application, node):
                return f"constraint {tree}"
        return super().why_not(application, key, node)

    def holds(self, tree: dict[str, Any], application: int, node: int) -> bool:
        """Judge a constraint as YARN does."""
        if "and" in tree:
            return all(self.holds(child, application, node) for child in tree["and"])
        if "or" in tree:
            return any(self.holds(child, application, node) for child in tree["or"])
        (target,) = tree["targets"]
        (value,) = target["values"]
        if target["type"] == "NODE_ATTRIBUTE":
            found: str | None = self.attributes.get(node, {}).get(target["key"])
            return bool((found == value) == (tree["op"] == "EQ"))
        there = [
            at
            for app, at, tag in self.tagged
            if app == application
            and tag == value
            and (at == node if tree["scope"] == "node" else self.nodes[at].rack == self.nodes[node].rack)
        ]
        return bool(tree["min"] <= len(there) <= tree["max"])

    def _commit(self, application: int, key: int, node: int) -> None:
        super()._commit(application, key, node)
        self.lives.append((application, self.applications[application].asks[key].priority, node))
        self.tagged += [(application, node, tag) for tag in self.allocation_tags.get((application, key), [])]


def cluster(nodes: int, size: Amounts = (4, 4), racks: int = 2) -> ConstrainedRM:
    """Return nodes whose zone is their number modulo 4, of which each fifth has a GPU, and a root with one leaf."""
    rm = ConstrainedRM()
    for at in range(nodes):
        rm.node(f"n{at}", size, rack=f"/r{at % racks}")
        rm.special(at, zone=f"z{at % 4}", **({"gpu": "yes"} if at % 5 == 0 else {}))
    root = rm.queue(-1, (nodes * size[0], nodes * size[1]))
    rm.queue(root, (nodes * size[0], nodes * size[1]))
    return rm


LEAF = 1

"""YARN's placement constraints, in the canonical form that frames carry (docs/wire-format.md).

A constraint becomes alternatives, the first preferred: a node will do if one of them holds there. What the
ResourceManager judges by more than a node's attributes and the application's own tags is `OPAQUE`. The simulator writes
``{"require": text}`` for a requirement of a stage.

What a node is to a requirement, and which nodes meet one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.constraints.expression import ANY, Conjunction, ExpressionError, Predicate, conjunction, parse

if TYPE_CHECKING:
    import numpy.typing as npt


DEFAULT_PARTITION: Final = "default"
"""How requirements name the partition of nodes without a label."""

EXACT_PARTITION: Final = "yarn_node_partition/"
"""How YARN's constraints name the partition; its value there is empty for nodes without a label."""

COLUMNS_MAX: Final = 64
"""Names for which the nodes' values are cached."""

_PORT = re.compile(r":[0-9]+$")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as requirements see it: attributes by prefix/name, and the totals of its resource types."""

    attributes: Mapping[str, str] = field(default_factory=dict)
    rack: str = ""
    host: str = ""
    partition: str = ""
    totals: Mapping[str, int] = field(default_factory=dict)

    def values(self, name: str, *, exact: bool) -> tuple[str, ...]:
        """Return what the node has under a predicate's name.

        A name without a prefix means the attributes of that name under any prefix, unless the match is exact.
        """
        if exact:
            if name == EXACT_PARTITION:
                return (self.partition,)
            return (self.attributes[name],) if name in self.attributes else ()
        if name == "rack":
            return (self.rack,)
        if name == "host":
            return (_PORT.sub("", self.host),)
        if name == "partition":
            return (self.partition or DEFAULT_PARTITION,)
        totals = tuple(str(total) for kind, total in self.totals.items() if kind.lower() == name)
        if totals:
            return totals
        full = "/" in name
        return tuple(
            value
            for attribute, value in sorted(self.attributes.items())
            if (attribute.lower() if full else attribute.lower().rpartition("/")[2]) == name
        )


def eligible(conjunction: Conjunction, facts: NodeFacts) -> bool:
    """Say whether a node meets a conjunction."""
    return all(one.holds(facts.values(one.name, exact=one.exact)) for one in conjunction.predicates)


class _Column:
    """What nodes have under one name: each combination of values has a number."""

    def __init__(self, name: str, *, exact: bool, nodes: int) -> None:
        self.values: list[tuple[str, ...] | None] = [None]
        """The values of each number; 0 is where there is no node."""
        self.of_node: npt.NDArray[np.int64] = np.zeros(nodes, np.int64)
        """The number of each node's values."""
        self._name, self._exact = name, exact
        self._number: dict[tuple[str, ...], int] = {}

    def put(self, nodes: Sequence[int], facts: Sequence[NodeFacts | None]) -> None:
        """Take what nodes are now."""
        for node, each in zip(nodes, facts, strict=True):
            if each is None:
                self.of_node[node] = 0
                continue
            values = each.values(self._name, exact=self._exact)
            if values not in self._number:
                self._number[values] = len(self.values)
                self.values.append(values)
            self.of_node[node] = self._number[values]

    def meet(self, predicate: Predicate, nodes: npt.NDArray[np.int64] | None) -> npt.NDArray[np.bool_]:
        """Return for each node, or each of ``nodes``, whether a predicate of this name holds; judge no value twice."""
        numbers = self.of_node if nodes is None else self.of_node[nodes]
        verdicts = np.zeros(len(self.values), bool)
        for number in np.unique(numbers).tolist():
            values = self.values[number]
            verdicts[number] = values is not None and predicate.holds(values)
        return verdicts[numbers]


class NodeTable:
    """What the nodes of a cluster are to requirements, by index; None for one that may not be used."""

    def __init__(self, facts: Sequence[NodeFacts | None] = ()) -> None:
        self._facts: list[NodeFacts | None] = list(facts)
        self._columns: dict[tuple[str, bool], _Column] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def put(self, nodes: Sequence[int], facts: Sequence[NodeFacts | None]) -> None:
        """Take what nodes are now; nodes up to the largest index are there afterwards."""
        for node, each in zip(nodes, facts, strict=True):
            if node >= len(self._facts):
                self._facts += [None] * (node + 1 - len(self._facts))
            self._facts[node] = each
        for key, column in list(self._columns.items()):
            more = len(self._facts) - len(column.of_node)
            column.of_node = np.concatenate([column.of_node, np.zeros(more, np.int64)])
            column.put(nodes, facts)
            if len(column.values) > 2 * len(self._facts) + 1:
                del self._columns[key]  # most of its values are of the past

    @property
    def usable(self) -> npt.NDArray[np.bool_]:
        """Return for each node whether it may be used."""
        return np.array([each is not None for each in self._facts], bool)

    def meet(self, predicate: Predicate, nodes: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.bool_]:
        """Return for each node, or each of ``nodes``, whether a predicate holds there; never where there is none."""
        name, exact = predicate.name, predicate.exact
        kept = self._columns.get((name, exact))
        if kept is None and nodes is not None:
            passing = _Column(name, exact=exact, nodes=len(nodes))
            passing.put(range(len(nodes)), [self._facts[node] for node in nodes.tolist()])
            return passing.meet(predicate, None)
        if kept is None:
            if len(self._columns) == COLUMNS_MAX:
                del self._columns[next(iter(self._columns))]
            kept = self._columns[name, exact] = _Column(name, exact=exact, nodes=len(self._facts))
            kept.put(range(len(self._facts)), self._facts)
        return kept.meet(predicate, nodes)


def eligible_nodes(conjunction: Conjunction, facts: Sequence[NodeFacts | None]) -> npt.NDArray[np.bool_]:
    """Return for each node whether it meets a conjunction; never where there is no node (None)."""
    table = NodeTable(facts)
    found = table.usable
    for predicate in conjunction.predicates:
        found &= table.meet(predicate)
    return found


ALTERNATIVES_MAX: Final = 32
"""A constraint with more alternatives is opaque."""

NO_MAXIMUM: Final = 2**31 - 1

DEFAULT_PREFIX: Final = "rm.yarn.io"
"""Where YARN looks for an attribute that is named without a prefix."""


@dataclass(frozen=True, slots=True, order=True)
class TagCount:
    """How many containers of the application with each of the tags there must be at a node or rack.

    At least ``least`` of each tag, at most ``most`` of each.
    """

    rack: bool
    least: int
    most: int
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Alternative:
    """What must all hold: of the node, and of the application's containers there."""

    where: Conjunction = ANY
    counts: tuple[TagCount, ...] = ()

    def __and__(self, other: Alternative) -> Alternative:
        """Return what must hold for both."""
        return Alternative(self.where & other.where, tuple(sorted({*self.counts, *other.counts})))


@dataclass(frozen=True, slots=True)
class Understood:
    """A constraint: a node will do if one of the alternatives holds; the first is preferred. None: no node will."""

    alternatives: tuple[Alternative, ...]

    @property
    def hard(self) -> Conjunction:
        """Return what every alternative demands of a node."""
        if not self.alternatives:
            return ANY
        shared = set(self.alternatives[0].where.predicates)
        for alternative in self.alternatives[1:]:
            shared &= set(alternative.where.predicates)
        return conjunction(tuple(shared))

    @property
    def soft(self) -> tuple[Conjunction, ...]:
        """Return the choices beyond `hard`, the first preferred; none if there is one alternative."""
        if len(self.alternatives) < 2:
            return ()
        hard = set(self.hard.predicates)
        return tuple(
            conjunction(tuple(one for one in alternative.where.predicates if one not in hard))
            for alternative in self.alternatives
        )


class Opaque:
    """What only the ResourceManager can judge."""

    def __repr__(self) -> str:
        """Return its name."""
        return "OPAQUE"


OPAQUE: Final = Opaque()


class _NotUnderstoodError(Exception):
    """Something in a constraint that only the ResourceManager can judge."""


def understand(text: str) -> Understood | Opaque:
    """Read the canonical JSON of a placement constraint."""
    try:
        return Understood(_alternatives(json.loads(text)))
    except (_NotUnderstoodError, ExpressionError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return OPAQUE


def _alternatives(node: dict[str, object]) -> tuple[Alternative, ...]:
    if "and" in node:
        found: tuple[Alternative, ...] = (Alternative(),)
        for child in _children(node["and"]):
            found = _distinct([one & other for one in found for other in _alternatives(child)])
        return found
    if "require" in node:
        return (Alternative(parse(str(node["require"]))),)
    if "or" in node:
        return _distinct([one for child in _children(node["or"]) for one in _alternatives(child)])
    return _single(node)


def _children(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(child, dict) for child in value):
        raise _NotUnderstoodError
    return value


def _distinct(found: list[Alternative]) -> tuple[Alternative, ...]:
    kept = tuple(dict.fromkeys(found))
    if len(kept) > ALTERNATIVES_MAX:
        raise _NotUnderstoodError
    return kept


def _single(node: dict[str, object]) -> tuple[Alternative, ...]:
    """Return what a single constraint demands, as `PlacementConstraintsUtil` judges it; nothing if it cannot hold."""
    scope, least, most, op = node["scope"], node["min"], node["max"], node["op"]
    if not isinstance(least, int) or not isinstance(most, int):
        raise _NotUnderstoodError
    predicates, counts = [], []
    for target in _children(node["targets"]):
        key, values = target["key"], target["values"]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise _NotUnderstoodError
        if target["type"] == "NODE_ATTRIBUTE":
            predicate = _attribute(key, values, op)
            if predicate is None:
                return ()
            predicates.append(predicate)
        elif target["type"] == "ALLOCATION_TAG" and key in {None, "", "self"} and values and scope in {"node", "rack"}:
            if least > 0 or most != NO_MAXIMUM:
                counts.append(TagCount(scope == "rack", max(least, 0), most, tuple(sorted(values))))
        else:
            raise _NotUnderstoodError
    return (Alternative(conjunction(tuple(predicates)), tuple(sorted(set(counts)))),)


def _attribute(key: object, values: list[str], op: object) -> Predicate | None:
    """Return what a target demands of a node's attributes; None if it never holds."""
    if not isinstance(key, str) or len(values) > 1:
        raise _NotUnderstoodError
    if key == EXACT_PARTITION:
        return Predicate(key, "=", (values[0] if values else "",), exact=True)
    if not values or op not in {"EQ", "NE"}:
        # The RM throws on the one, and finds no node for the other: without EQ or NE nothing matches.
        return None
    parts = key.rstrip("/").split("/")
    name = f"{DEFAULT_PREFIX}/{parts[0]}" if len(parts) == 1 else f"{parts[0]}/{parts[1]}"
    return Predicate(name, "=" if op == "EQ" else "!=", (values[0],), exact=True)

"""YARN's placement constraints, in the canonical form that frames carry (docs/wire-format.md).

A constraint becomes alternatives, the first preferred: a node will do if one of them holds there. What the
ResourceManager judges by more than a node's attributes and the application's own tags is `OPAQUE`. The simulator writes
``{"require": text}`` for a requirement of a stage.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from treadle.constraints.expression import ANY, Conjunction, ExpressionError, Predicate, conjunction, parse
from treadle.constraints.nodes import EXACT_PARTITION

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

"""Node selection of requests: requirements, YARN's placement constraints, and the resulting choices.

A requirement is ``name op value[|value]``, joined by ``;``; case is ignored. `io.treadle.shim.constraints.Expression`
is the Java version; `tests/golden/expressions.json` tests that both agree. A placement constraint has the canonical
form of frames (docs/wire-format.md) and becomes alternatives, the first preferred: a node qualifies if one of them
holds there. Constraints that depend on more than a node's attributes and the application's own tags are opaque. The
simulator writes ``{"require": text}`` for a requirement of a stage. The alternatives of a `Choice` are in the order of
preference. At level k a node qualifies by one of the first k + 1 alternatives; at the last level all count, which is
the hard constraint.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.errors import UserError, counted, nearest

if TYPE_CHECKING:
    import numpy.typing as npt


CHARS_MAX: Final = 1_000
"""Maximum length of a requirement."""

OPERATORS: Final = ("!=", ">=", "<=", "=", ">", "<")
"""Operators with two characters come first, so that the longest match is used."""

COMPARISONS: Final = frozenset({">=", "<=", ">", "<"})

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_VALUE = re.compile(r"[^!<>=|;&]+")
_DOTTED = re.compile(r"[0-9]+(\.[0-9]+)*")


class ExpressionError(UserError):
    """An invalid requirement: the position (from 1), the error, and the remedy."""

    def __init__(self, text: str, at: int, reason: str) -> None:
        """Store the position of the error in ``text``."""
        super().__init__(f"{shown(text)!r}, character {at}: {reason}")
        self.at = at
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class Predicate:
    """A condition on one value of a node.

    ``exact`` is YARN's comparison of an attribute: by full name and literal value.
    """

    name: str
    op: str
    values: tuple[str, ...]
    exact: bool = False

    def text(self) -> str:
        """Return the canonical form."""
        return f"{self.name}{self.op}{'|'.join(self.values)}"

    def holds(self, values: tuple[str, ...]) -> bool:
        """Return whether it holds for a node with these values of the name; without any, only ``!=`` does."""
        if self.op == "!=":
            return not any(self._equal(value, wanted) for value in values for wanted in self.values)
        if self.op == "=":
            return any(self._equal(value, wanted) for value in values for wanted in self.values)
        return any(compares(value, self.op, self.values[0]) for value in values)

    def _equal(self, value: str, expected: str) -> bool:
        return value == expected if self.exact else same(value.lower(), expected)


@dataclass(frozen=True, slots=True, order=True)
class Conjunction:
    """Predicates that must all hold, sorted and distinct; empty: every node qualifies."""

    predicates: tuple[Predicate, ...] = ()

    def text(self) -> str:
        """Return the canonical form: equal for equal conjunctions."""
        return ";".join(("exact:" if one.exact else "") + one.text() for one in self.predicates)

    def __and__(self, other: Conjunction) -> Conjunction:
        """Return the conjunction of both."""
        return conjunction((*self.predicates, *other.predicates))


ANY: Final = Conjunction()


def conjunction(predicates: tuple[Predicate, ...]) -> Conjunction:
    """Return the conjunction of predicates, sorted and distinct."""
    return Conjunction(tuple(sorted(set(predicates))))


def shown(text: str) -> str:
    """Return the beginning of a text, short enough for a message."""
    return text if len(text) <= 120 else text[:117] + "..."


def parse(text: str) -> Conjunction:
    """Read a requirement.

    Raises:
        ExpressionError: it is not of the form ``name op value[|value];...``
    """
    return conjunction(conditions(text))


def conditions(text: str) -> tuple[Predicate, ...]:
    """Read a requirement; return its predicates in the original order.

    Raises:
        ExpressionError: it is not of the form ``name op value[|value];...``
    """
    if len(text) > CHARS_MAX:
        raise ExpressionError(text, CHARS_MAX + 1, f"longer than {CHARS_MAX} characters; shorten it")
    for at, char in enumerate(text, 1):
        if not " " <= char <= "~":
            raise ExpressionError(text, at, "a character that is not printable ASCII; leave it out")
    parts, start = [], 0
    for part in text.split(";"):
        parts.append(_predicate(text, part, start))
        start += len(part) + 1
    return tuple(parts)


def _predicate(text: str, part: str, start: int) -> Predicate:
    begin = len(part) - len(part.lstrip(" "))
    name = _NAME.match(part, begin)
    if name is None:
        raise ExpressionError(text, start + begin + 1, "expected a name, as in zone=a; write name op value")
    after = len(part) - len(part[name.end() :].lstrip(" "))
    op = next((one for one in OPERATORS if part.startswith(one, after)), None)
    if op is None:
        raise ExpressionError(text, start + after + 1, "expected one of = != >= > <= < after the name")
    at, values = after + len(op), []
    for value in part[at:].split("|"):
        values.append(_value(text, value, start + at))
        at += len(value) + 1
    if op in COMPARISONS and (len(values) > 1 or not _DOTTED.fullmatch(values[0])):
        reason = f"{op} needs one number, as in kernel>=4.18; write = or != for names and lists"
        raise ExpressionError(text, start + after + 1, reason)
    return Predicate(name.group().lower(), op, tuple(sorted(set(values))))


def _value(text: str, value: str, start: int) -> str:
    begin = len(value) - len(value.lstrip(" "))
    matched = _VALUE.match(value, begin)
    if matched is None:
        raise ExpressionError(text, start + begin + 1, "expected a value; write name op value")
    if matched.end() < len(value):
        reason = f"unexpected {value[matched.end()]!r} in a value; join conditions by ;"
        raise ExpressionError(text, start + matched.end() + 1, reason)
    return matched.group().rstrip(" ").lower()


def same(value: str, expected: str) -> bool:
    """Return whether two texts are equal, dotted numbers as versions: 8 and 8.0 are."""
    if value == expected:
        return True
    return bool(_DOTTED.fullmatch(value) and _DOTTED.fullmatch(expected)) and version_order(value, expected) == 0


def compares(value: str, op: str, expected: str) -> bool:
    """Return the result of ``op`` for a value and a dotted number; False for any other value."""
    if not _DOTTED.fullmatch(value):
        return False
    order = version_order(value, expected)
    return {">": order > 0, ">=": order >= 0, "<": order < 0, "<=": order <= 0}[op]


def version_order(left: str, right: str) -> int:
    """Return -1, 0 or 1 as a dotted number is less than, equal to or more than another; missing parts are 0."""
    for one, other in zip_longest(left.split("."), right.split("."), fillvalue="0"):
        first, second = one.lstrip("0"), other.lstrip("0")
        if first != second:
            return 1 if (len(first), first) > (len(second), second) else -1
    return 0


OTHER: Final = "other"
"""The kind of other names, unless configured."""

BUILT_IN: Final = {
    "cpu": ("arch", "architecture", "cores", "cpu", "isa", "platform", "vcores"),
    "mem": ("mem", "memory", "memory-mb"),
    "disk": ("disk", "disks", "max_disks", "min_disks", "ssd", "storage"),
    "os": ("kernel", "os"),
    "clock": ("clock", "clock_speed", "frequency", "mhz"),
    "net": ("bandwidth", "ethernet", "net", "network"),
}
"""Names of attributes and resource types, without prefix."""

_KIND: Final = {name: kind for kind, names in BUILT_IN.items() for name in names}


def kind_of(name: str, given: Mapping[str, str]) -> str:
    """Return the kind of a predicate's name; ``given`` has the configured ones, with prefix or without."""
    short = name.lower().rpartition("/")[2]
    return given.get(name.lower()) or given.get(short) or _KIND.get(short, OTHER)


DEFAULT_PARTITION: Final = "default"
"""Name of the partition without a label in requirements."""

EXACT_PARTITION: Final = "yarn_node_partition/"
"""Name of the partition in YARN's constraints, with an empty value for nodes without a label."""

COLUMNS_MAX: Final = 64
"""Maximum number of names with cached values of nodes."""

_PORT = re.compile(r":[0-9]+$")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Properties of a node for requirements: attributes by prefix/name, and the totals of its resource types."""

    attributes: Mapping[str, str] = field(default_factory=dict)
    rack: str = ""
    host: str = ""
    partition: str = ""
    totals: Mapping[str, int] = field(default_factory=dict)

    def values(self, name: str, *, exact: bool) -> tuple[str, ...]:
        """Return a node's values of a predicate's name.

        A name without a prefix stands for attributes with any prefix, unless the match is exact.
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


class _Column:
    """Values of nodes under one name, numbered by combination."""

    def __init__(self, name: str, *, exact: bool, nodes: int) -> None:
        self.values: list[tuple[str, ...] | None] = [None]
        """The values of each number; 0 stands for no node."""
        self.of_node: npt.NDArray[np.int64] = np.zeros(nodes, np.int64)
        """The number of each node's values."""
        self._name, self._exact = name, exact
        self._number: dict[tuple[str, ...], int] = {}

    def put(self, nodes: Sequence[int], facts: Sequence[NodeFacts | None]) -> None:
        """Set the properties of nodes."""
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
        """Return for each node, or each of ``nodes``, whether a predicate holds; evaluates each value once."""
        numbers = self.of_node if nodes is None else self.of_node[nodes]
        holds = np.zeros(len(self.values), bool)
        for number in np.unique(numbers).tolist():
            values = self.values[number]
            holds[number] = values is not None and predicate.holds(values)
        return holds[numbers]


class NodeFactTable:
    """Properties of a cluster's nodes by index; None for an unusable one."""

    def __init__(self, facts: Sequence[NodeFacts | None] = ()) -> None:
        self._facts: list[NodeFacts | None] = list(facts)
        self._columns: dict[tuple[str, bool], _Column] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def put(self, nodes: Sequence[int], facts: Sequence[NodeFacts | None]) -> None:
        """Set the properties of nodes; the table grows to the largest index."""
        for node, each in zip(nodes, facts, strict=True):
            if node >= len(self._facts):
                self._facts += [None] * (node + 1 - len(self._facts))
            self._facts[node] = each
        for key, column in list(self._columns.items()):
            more = len(self._facts) - len(column.of_node)
            column.of_node = np.concatenate([column.of_node, np.zeros(more, np.int64)])
            column.put(nodes, facts)
            if len(column.values) > 2 * len(self._facts) + 1:
                del self._columns[key]  # most of its values are outdated

    @property
    def usable(self) -> npt.NDArray[np.bool_]:
        """Return whether each node is usable."""
        return np.array([each is not None for each in self._facts], bool)

    def meet(self, predicate: Predicate, nodes: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.bool_]:
        """Return for each node, or each of ``nodes``, whether a predicate holds there; False for unusable ones."""
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


ALTERNATIVES_MAX: Final = 32
"""A constraint with more alternatives is opaque."""

NO_MAXIMUM: Final = 2**31 - 1

DEFAULT_PREFIX: Final = "rm.yarn.io"
"""YARN's prefix of an attribute without one."""


@dataclass(frozen=True, slots=True, order=True)
class TagCount:
    """Bounds on the number of the application's containers with each of the tags at a node or rack.

    At least ``least`` and at most ``most`` for each tag.
    """

    rack: bool
    least: int
    most: int
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Alternative:
    """Conditions that must all hold: on the node, and on the application's containers there."""

    where: Conjunction = ANY
    counts: tuple[TagCount, ...] = ()

    def __and__(self, other: Alternative) -> Alternative:
        """Return the conjunction of both."""
        return Alternative(self.where & other.where, tuple(sorted({*self.counts, *other.counts})))


Alternatives = tuple[Alternative, ...]
"""A node qualifies if one of them holds there; the first is preferred. Empty: no node qualifies."""


class _UnsupportedError(Exception):
    """A part of a constraint that only the ResourceManager can check."""


def parse_constraint(text: str) -> Alternatives | None:
    """Read the canonical JSON of a placement constraint; None if it is opaque: only the RM can check it."""
    try:
        return _alternatives(json.loads(text))
    except (_UnsupportedError, ExpressionError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _alternatives(node: dict[str, object]) -> Alternatives:
    if "and" in node:
        alternatives: Alternatives = (Alternative(),)
        for child in _children(node["and"]):
            alternatives = _distinct([one & other for one in alternatives for other in _alternatives(child)])
        return alternatives
    if "require" in node:
        return (Alternative(parse(str(node["require"]))),)
    if "or" in node:
        return _distinct([one for child in _children(node["or"]) for one in _alternatives(child)])
    return _single(node)


def _children(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(child, dict) for child in value):
        raise _UnsupportedError
    return value


def _distinct(alternatives: list[Alternative]) -> Alternatives:
    kept = tuple(dict.fromkeys(alternatives))
    if len(kept) > ALTERNATIVES_MAX:
        raise _UnsupportedError
    return kept


def _single(node: dict[str, object]) -> Alternatives:
    """Return the alternatives of a single constraint, as in `PlacementConstraintsUtil`; empty if it cannot hold."""
    scope, least, most, op = node["scope"], node["min"], node["max"], node["op"]
    if not isinstance(least, int) or not isinstance(most, int):
        raise _UnsupportedError
    predicates, counts = [], []
    for target in _children(node["targets"]):
        key, values = target["key"], target["values"]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise _UnsupportedError
        if target["type"] == "NODE_ATTRIBUTE":
            predicate = _attribute(key, values, op)
            if predicate is None:
                return ()
            predicates.append(predicate)
        elif target["type"] == "ALLOCATION_TAG" and key in {None, "", "self"} and values and scope in {"node", "rack"}:
            if least > 0 or most != NO_MAXIMUM:
                counts.append(TagCount(scope == "rack", max(least, 0), most, tuple(sorted(values))))
        else:
            raise _UnsupportedError
    return (Alternative(conjunction(tuple(predicates)), tuple(sorted(set(counts)))),)


def _attribute(key: object, values: list[str], op: object) -> Predicate | None:
    """Return a target's condition on a node's attributes; None if it never holds."""
    if not isinstance(key, str) or len(values) > 1:
        raise _UnsupportedError
    if key == EXACT_PARTITION:
        return Predicate(key, "=", (values[0] if values else "",), exact=True)
    if not values or op not in {"EQ", "NE"}:
        # The RM throws for one, and finds no node for the other: without EQ or NE nothing matches.
        return None
    parts = key.rstrip("/").split("/")
    name = f"{DEFAULT_PREFIX}/{parts[0]}" if len(parts) == 1 else f"{parts[0]}/{parts[1]}"
    return Predicate(name, "=" if op == "EQ" else "!=", (values[0],), exact=True)


REQUIRE: Final = "treadle:require="
PREFER: Final = "treadle:prefer="

PREFERRED_MAX: Final = 8
"""Maximum number of preferred conditions; later ones are ignored."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The alternatives of a request."""

    alternatives: Alternatives

    def nodes_at(self, level: int) -> tuple[Conjunction, ...]:
        """Return the conditions at a level, one of which nodes must satisfy, sorted and distinct."""
        conjunctions = {alternative.where for alternative in self.alternatives[: level + 1]}
        return (ANY,) if ANY in conjunctions else tuple(sorted(conjunctions))

    @property
    def last(self) -> int:
        """The level at which all alternatives count."""
        return max(len(self.alternatives) - 1, 0)

    @property
    def counts_tags(self) -> bool:
        """Whether the application's own containers count."""
        return any(alternative.counts for alternative in self.alternatives)


@dataclass(frozen=True, slots=True)
class NodePreference:
    """An application's requirement for all its nodes, and its preferences, the most important first."""

    required: Conjunction = ANY
    preferred: tuple[Predicate, ...] = ()
    error: str = ""
    """The error and the remedy if it is invalid; then no node qualifies."""


NO_PREFERENCE: Final = NodePreference()


def node_preference(tags: list[str]) -> NodePreference:
    """Read the tags of an application; tags of one kind are sorted."""
    required, preferred = ANY, list[Predicate]()
    for tag in sorted(tags):
        name = tag[: tag.find("=") + 1].lower()
        try:
            if name == REQUIRE:
                required &= conjunction(conditions(tag[len(REQUIRE) :]))
            elif name == PREFER:
                preferred += conditions(tag[len(PREFER) :])
        except ExpressionError as error:
            return NodePreference(error=f"{name[:-1]}: {error}")
    return NodePreference(required, tuple(dict.fromkeys(preferred))[:PREFERRED_MAX])


def choice(of_application: NodePreference, of_request: Alternatives | None) -> Choice:
    """Return the choice of a request; ``of_request`` is None if it has no constraint."""
    if of_application.error:
        return Choice(())
    own_alternatives = (Alternative(),) if of_request is None else of_request
    alternatives = []
    for kept in range(len(of_application.preferred), -1, -1):
        where = of_application.required & conjunction(of_application.preferred[:kept])
        alternatives += [Alternative(where) & alternative for alternative in own_alternatives]
    distinct = tuple(dict.fromkeys(alternatives))
    # The last ones contain the hard conditions, so the most preferred ones are dropped if there are too many.
    return Choice(distinct[-max(ALTERNATIVES_MAX, len(own_alternatives)) :])


GANG: Final = "treadle:gang="
"""Prefix of a tag with the number of an application's containers that are placed together or not at all."""

GANG_BOUND: Final = 513
"""One more than the maximum of a transaction: so many are never placed together."""

WORKERS: Final = "treadle:workers="
"""Prefix of a tag with the number of parallel tasks of a MapReduce job."""

_KNOWN: Final = (GANG, PREFER, REQUIRE, WORKERS)
_BEGIN: Final = "treadle:"
_RECURRING: Final = re.compile(r"treadle:[a-z0-9._-]{1,90}")
_VALUE_SHOWN_MAX: Final = 40
_NAMED_MAX: Final = 8
"""Maximum number of distinct tags in warnings."""


def gang_of(tags: Collection[str]) -> int:
    """Return the largest gang size in tags; 0 without a valid one.

    Numbers above `GANG_BOUND` are returned as that.
    """
    sizes = [tag.removeprefix(GANG) for tag in tags if tag.startswith(GANG)]
    return max((min(int(each), GANG_BOUND) for each in sizes if each.isascii() and each.isdigit()), default=0)


def miscounted(tags: Iterable[str]) -> str:
    """Return the errors of tags that require a number; empty if there are none."""
    for tag in sorted(tags):
        name, _, value = tag.partition("=")
        if f"{name}=" in (GANG, WORKERS) and not (value.isascii() and value.isdigit()):
            given = value[:_VALUE_SHOWN_MAX]
            return f"{name}: {given!r} is not a whole number; write one, as {name}=4, or take the tag out"
    return ""


def misread(tags: Collection[str]) -> str:
    """Return the errors of an application's tags with Treadle's prefix; empty if there are none."""
    unread = sorted(tag for tag in tags if not _is_read(tag))
    return miscounted(tags) or (f"tag {unread[0][:100]!r}: {_unread(unread[0])}" if unread else "")


def unread_tags(jobs: Iterable[Collection[str]]) -> list[str]:
    """Return a line for each tag of jobs that resembles one of Treadle's but is not."""
    counts = Counter(tag for tags in jobs for tag in set(tags) if tag.lower().startswith(_BEGIN))
    unread = {tag: count for tag, count in sorted(counts.items()) if not _is_read(tag)}
    lines = [_line(tag, count) for tag, count in list(unread.items())[:_NAMED_MAX]]
    more = len(unread) - len(lines)
    return [*lines, f"{counted(more, 'more tag')} that Treadle does not read"] if more else lines


def _is_read(tag: str) -> bool:
    name = tag[: tag.find("=") + 1]
    return name in (GANG, WORKERS) or name.lower() in (PREFER, REQUIRE) or bool(_RECURRING.fullmatch(tag.lower()))


def _line(tag: str, count: int) -> str:
    return f"tag {tag[:100]!r} of {counted(count, 'job')}: {_unread(tag)}"


def _unread(tag: str) -> str:
    name = f"{tag.partition('=')[0]}="
    known = [each.removeprefix(_BEGIN).removesuffix("=") for each in _KNOWN]
    hint = nearest(name[len(_BEGIN) : -1].lower(), known) or f"; it reads {', '.join(_KNOWN)}"
    return f"Treadle reads no {name[:100]}{hint}"

"""Requirements as applications write them: ``name op value[|value]``, joined by ``;``. Case is ignored.

`io.treadle.shim.constraints.Expression` is the same in Java; `tests/golden/expressions.json` holds both to one meaning.

Of which kind a predicate is: the dimensions of Phoenix's constraint resource vector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from treadle.errors import UserError

CHARS_MAX: Final = 1_000
"""A longer requirement is refused."""

OPERATORS: Final = ("!=", ">=", "<=", "=", ">", "<")
"""Those of two characters first: the longest that stands there is meant."""

COMPARISONS: Final = frozenset({">=", "<=", ">", "<"})

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_VALUE = re.compile(r"[^!<>=|;&]+")
_DOTTED = re.compile(r"[0-9]+(\.[0-9]+)*")


class ExpressionError(UserError):
    """A requirement that cannot be read: at which character (from 1), what is wrong, and how to put it right."""

    def __init__(self, text: str, at: int, reason: str) -> None:
        """Keep where in ``text`` it went wrong."""
        super().__init__(f"{shown(text)!r}, character {at}: {reason}")
        self.at = at
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class Predicate:
    """What must hold of one value of a node.

    ``exact`` is YARN's way to judge an attribute: its full name, its value to the letter.
    """

    name: str
    op: str
    values: tuple[str, ...]
    exact: bool = False

    def text(self) -> str:
        """Return the canonical form."""
        return f"{self.name}{self.op}{'|'.join(self.values)}"

    def holds(self, found: tuple[str, ...]) -> bool:
        """Say whether it holds of a node that has these values under the name; without any, only ``!=`` does."""
        if self.op == "!=":
            return not any(self._equal(value, wanted) for value in found for wanted in self.values)
        if self.op == "=":
            return any(self._equal(value, wanted) for value in found for wanted in self.values)
        return any(compares(value, self.op, self.values[0]) for value in found)

    def _equal(self, value: str, wanted: str) -> bool:
        return value == wanted if self.exact else same(value.lower(), wanted)


@dataclass(frozen=True, slots=True, order=True)
class Conjunction:
    """Predicates that must all hold, in order, each once; none: any node will do."""

    predicates: tuple[Predicate, ...] = ()

    def text(self) -> str:
        """Return the canonical form: equal for equal conjunctions."""
        return ";".join(("exact:" if one.exact else "") + one.text() for one in self.predicates)

    def __and__(self, other: Conjunction) -> Conjunction:
        """Return what must hold for both."""
        return conjunction((*self.predicates, *other.predicates))


ANY: Final = Conjunction()


def conjunction(predicates: tuple[Predicate, ...]) -> Conjunction:
    """Return the conjunction of predicates, in order and each once."""
    return Conjunction(tuple(sorted(set(predicates))))


def shown(text: str) -> str:
    """Return the beginning of a text, short enough for a message."""
    return text if len(text) <= 120 else text[:117] + "..."


def parse(text: str, joined_by: str = ";") -> Conjunction:
    """Read a requirement.

    Raises:
        ExpressionError: it is not of the form ``name op value[|value];...``
    """
    return conjunction(conditions(text, joined_by))


def conditions(text: str, joined_by: str = ";") -> tuple[Predicate, ...]:
    """Read a requirement; return its predicates in the order in which they stand.

    Raises:
        ExpressionError: it is not of the form ``name op value[|value];...``
    """
    if len(text) > CHARS_MAX:
        raise ExpressionError(text, CHARS_MAX + 1, f"longer than {CHARS_MAX} characters; shorten it")
    for at, char in enumerate(text, 1):
        if not " " <= char <= "~":
            raise ExpressionError(text, at, "a character that is not printable ASCII; leave it out")
    found, start = [], 0
    for part in text.split(joined_by):
        found.append(_predicate(text, part, start))
        start += len(part) + len(joined_by)
    return tuple(found)


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


def same(value: str, wanted: str) -> bool:
    """Say whether two texts are equal, dotted numbers as versions: 8 and 8.0 are."""
    if value == wanted:
        return True
    return bool(_DOTTED.fullmatch(value) and _DOTTED.fullmatch(wanted)) and version_order(value, wanted) == 0


def compares(value: str, op: str, wanted: str) -> bool:
    """Say whether a value stands as ``op`` says to a dotted number; what is no dotted number does not."""
    if not _DOTTED.fullmatch(value):
        return False
    order = version_order(value, wanted)
    return {">": order > 0, ">=": order >= 0, "<": order < 0, "<=": order <= 0}[op]


def version_order(left: str, right: str) -> int:
    """Return -1, 0 or 1 as a dotted number is less than, equal to or more than another; missing parts are 0."""
    for one, other in zip_longest(left.split("."), right.split("."), fillvalue="0"):
        mine, theirs = one.lstrip("0"), other.lstrip("0")
        if mine != theirs:
            return 1 if (len(mine), mine) > (len(theirs), theirs) else -1
    return 0


KINDS: Final = ("cpu", "mem", "disk", "os", "clock", "net")
"""The paper's. What is none of these, and not set otherwise, is `OTHER`."""

OTHER: Final = "other"

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
    """Return the kind of a predicate's name; ``given`` has those that are set, with prefix or without."""
    short = name.lower().rpartition("/")[2]
    return given.get(name.lower()) or given.get(short) or _KIND.get(short, OTHER)

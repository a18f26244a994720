"""What an ask may choose from: what its application requires and prefers, and what the ask itself demands.

The alternatives of a `Choice` are in the order of preference. At level k a node will do that meets one of the first
k + 1 alternatives; at the last level all count, and that is what hard constraints demand.

The tags of applications that Treadle reads besides requirements, and what is wrong with those that it cannot read.

A tag ``treadle:NAME`` without ``=`` names a recurring job (docs/slearn.md), and may be any name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from treadle.constraints.expression import ANY, Conjunction, ExpressionError, Predicate, conditions, conjunction
from treadle.constraints.placement import ALTERNATIVES_MAX, Alternative, Understood
from treadle.errors import counted, nearest

REQUIRE: Final = "treadle:require="
PREFER: Final = "treadle:prefer="

PREFERRED_MAX: Final = 8
"""Preferred conditions that count; later ones are ignored."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives, the first preferred. None: no node will do."""

    alternatives: tuple[Alternative, ...]

    def nodes_at(self, level: int) -> tuple[Conjunction, ...]:
        """Return what nodes must meet one of at a level, in order and each once."""
        wanted = {alternative.where for alternative in self.alternatives[: level + 1]}
        return (ANY,) if ANY in wanted else tuple(sorted(wanted))

    @property
    def last(self) -> int:
        """The level at which all alternatives count."""
        return max(len(self.alternatives) - 1, 0)

    @property
    def counts_tags(self) -> bool:
        """Whether containers of the application itself count."""
        return any(alternative.counts for alternative in self.alternatives)


@dataclass(frozen=True, slots=True)
class Wish:
    """What an application requires of all its nodes, and what it prefers, the most important first."""

    required: Conjunction = ANY
    preferred: tuple[Predicate, ...] = ()
    error: str = ""
    """What is wrong with it, and how to put it right; then no node will do."""


NO_WISH: Final = Wish()


def wish(tags: list[str]) -> Wish:
    """Read the tags of an application; those of one kind count in the order of their texts."""
    required, preferred = ANY, list[Predicate]()
    for tag in sorted(tags):
        name = tag[: tag.find("=") + 1].lower()
        try:
            if name == REQUIRE:
                required &= conjunction(conditions(tag[len(REQUIRE) :]))
            elif name == PREFER:
                preferred += conditions(tag[len(PREFER) :])
        except ExpressionError as error:
            return Wish(error=f"{name[:-1]}: {error}")
    return Wish(required, tuple(dict.fromkeys(preferred))[:PREFERRED_MAX])


def choice(of_application: Wish, of_ask: Understood | None) -> Choice:
    """Return what an ask may choose from; ``of_ask`` is None where nothing more is known of it."""
    if of_application.error:
        return Choice(())
    asked = (Alternative(),) if of_ask is None else of_ask.alternatives
    found = []
    for kept in range(len(of_application.preferred), -1, -1):
        where = of_application.required & conjunction(of_application.preferred[:kept])
        found += [Alternative(where) & alternative for alternative in asked]
    distinct = tuple(dict.fromkeys(found))
    # what is hard is in the last ones, so the most preferred give way where there are too many
    return Choice(distinct[-max(ALTERNATIVES_MAX, len(asked)) :])


GANG: Final = "treadle:gang="
"""A tag that begins so says how many containers of an application are placed together or not at all."""

GANG_BOUND: Final = 513
"""One more than one transaction may have: so many can never be had together."""

WORKERS: Final = "treadle:workers="
"""A tag that begins so says how many tasks of a MapReduce job run at a time."""

_KNOWN: Final = (GANG, PREFER, REQUIRE, WORKERS)
_BEGIN: Final = "treadle:"
_RECURRING: Final = re.compile(r"treadle:[a-z0-9._-]{1,90}")
_VALUE_SHOWN_MAX: Final = 40
_NAMED_MAX: Final = 8
"""Different tags that are warned of, at most."""


def gang_of(tags: Collection[str]) -> int:
    """Return how many containers a tag wants together, the most of several; 0 without one, and for what is no number.

    What is more than `GANG_BOUND` is returned as that.
    """
    wanted = [tag.removeprefix(GANG) for tag in tags if tag.startswith(GANG)]
    return max((min(int(each), GANG_BOUND) for each in wanted if each.isascii() and each.isdigit()), default=0)


def miscounted(tags: Iterable[str]) -> str:
    """Return what is wrong with the tags that should have a number; empty if nothing is."""
    for tag in sorted(tags):
        name, _, value = tag.partition("=")
        if f"{name}=" in (GANG, WORKERS) and not (value.isascii() and value.isdigit()):
            shown = value[:_VALUE_SHOWN_MAX]
            return f"{name}: {shown!r} is no whole number; write one, as {name}=4, or take the tag out"
    return ""


def misread(tags: Collection[str]) -> str:
    """Return what is wrong with one application's tags that begin as Treadle's do; empty if nothing is."""
    unread = sorted(tag for tag in tags if not _is_read(tag))
    return miscounted(tags) or (f"tag {unread[0][:100]!r}: {_not_read(unread[0])}" if unread else "")


def unread_tags(jobs: Iterable[Collection[str]]) -> list[str]:
    """Return a line for each tag of jobs that looks like one of Treadle's and is none."""
    found = Counter(tag for tags in jobs for tag in set(tags) if tag.lower().startswith(_BEGIN))
    unread = {tag: count for tag, count in sorted(found.items()) if not _is_read(tag)}
    lines = [_line(tag, count) for tag, count in list(unread.items())[:_NAMED_MAX]]
    more = len(unread) - len(lines)
    return [*lines, f"{counted(more, 'more tag')} that Treadle does not read"] if more else lines


def _is_read(tag: str) -> bool:
    name = tag[: tag.find("=") + 1]
    return name in (GANG, WORKERS) or name.lower() in (PREFER, REQUIRE) or bool(_RECURRING.fullmatch(tag.lower()))


def _line(tag: str, count: int) -> str:
    return f"tag {tag[:100]!r} of {counted(count, 'job')}: {_not_read(tag)}"


def _not_read(tag: str) -> str:
    name = f"{tag.partition('=')[0]}="
    says = f"Treadle reads no {name[:100]}"
    known = [each.removeprefix(_BEGIN).removesuffix("=") for each in _KNOWN]
    return says + (nearest(name[len(_BEGIN) : -1].lower(), known) or f"; it reads {', '.join(_KNOWN)}")

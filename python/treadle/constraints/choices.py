"""What an ask may choose from: what its application requires and prefers, and what the ask itself demands.

The alternatives of a `Choice` are in the order of preference. At level k a node will do that meets one of the first
k + 1 alternatives; at the last level all count, and that is what hard constraints demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from treadle.constraints.expression import ANY, Conjunction, ExpressionError, Predicate, conditions, conjunction
from treadle.constraints.placement import ALTERNATIVES_MAX, Alternative, Understood

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

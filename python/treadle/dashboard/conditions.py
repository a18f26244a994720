"""What is wrong with a cluster, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

CONDITIONS_MAX: Final = 64
TEXT_MAX: Final = 512
UNSEEN_S: Final = 600.0
"""What was wrong when an earlier process looked last is the same trouble if that was no longer ago."""


class Trouble(NamedTuple):
    """What somebody who looked found."""

    severity: str
    """``fail``: the cluster is not scheduled by Treadle, or not seen; ``warn``: something waits for somebody."""
    text: str


class Condition(NamedTuple):
    """Something that is wrong."""

    name: str
    severity: str
    text: str
    since_s: float
    """When it was seen first, seconds since 1970."""

    def line(self) -> str:
        """Return it as a line of a log."""
        return f"{self.name}: {self.text}"


class Conditions:
    """What is wrong now, with since when."""

    def __init__(self, kept: Iterable[Condition] = (), looked_s: float = 0.0) -> None:
        """Begin with what an earlier process knew.

        Args:
            kept: what was wrong when it looked last
            looked_s: when that was, seconds since 1970
        """
        self._now = {condition.name: condition for condition in kept}
        self._looked_s = looked_s
        self._sees = False
        self._said: set[str] = set()

    def see(self, at_s: float, found: Mapping[str, Trouble]) -> tuple[tuple[Condition, ...], list[str], list[str]]:
        """Return what is wrong, with since when; a line for each that is new; and a line for each that is over.

        Args:
            at_s: the time, seconds since 1970
            found: what is wrong, by a name that stays the same as long as it is the same trouble
        """
        before = self._now
        same = before if self._sees or at_s - self._looked_s <= UNSEEN_S else {}
        self._sees = True
        now: dict[str, Condition] = {}
        began = []
        for name, trouble in list(found.items())[:CONDITIONS_MAX]:
            text, old = trouble.text[:TEXT_MAX], same.get(name)
            now[name] = Condition(name, trouble.severity, text, old.since_s if old else at_s)
            if old is None:
                began.append(now[name].line())
        over = [f"resolved: {old.line()}" for name, old in before.items() if name not in now]
        self._now = now
        return tuple(now.values()), began, over

    def unsaid(self) -> list[Condition]:
        """Return what is wrong that this process has not been asked for yet, as when an earlier one saw it begin."""
        found = [condition for name, condition in self._now.items() if name not in self._said]
        self._said = set(self._now)
        return found

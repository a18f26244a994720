"""What is expected to happen until an ask is served: containers end, and the leaf that is owed most takes their room.

A model of its own in counts of steps, not the policy: leaves take turns by what they use of what they are guaranteed,
applications of a leaf in the order that the latest decide gave them. Nobody else comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from treadle.explain.kept_free import Amounts, KeptFree, fits

ITEMS_LOOKED_AT: Final = 8
"""Kinds of asks of a leaf that are tried on a node, in the leaf's order."""


@dataclass(slots=True)
class Item:
    """Asks of one kind that wait."""

    row: int
    leaf: int
    user: int
    amounts: Amounts
    count: int
    durations_ms: list[float]
    """How long containers of it then run, in turn; infinite: nobody knows."""
    is_asked: bool = False
    """Is it the ask that is asked about?"""


@dataclass(frozen=True, slots=True)
class End:
    """A container that ends."""

    node: int
    leaf: int
    user: int
    amounts: Amounts


@dataclass(slots=True)
class Leaf:
    """A queue that takes its turn."""

    used: list[int]
    guaranteed: Amounts
    maximum: Amounts | None
    waiting: list[Item]
    favour: float = 0.0
    """Is added to its key: less than 0 lets it be served before others."""
    key: float = 0.0
    """Which part it uses of what it is guaranteed, of the resource of which that is most."""

    def __post_init__(self) -> None:
        """Set its key."""
        self.charge(self.guaranteed, 0)

    def charge(self, amounts: Amounts, sign: int) -> None:
        """Add to what it uses, or take off."""
        _add(self.used, amounts, sign)
        pairs = zip(self.used, self.guaranteed, strict=True)
        self.key = max((used / max(owed, 1) for used, owed in pairs), default=0.0) + self.favour


@dataclass(slots=True)
class Limit:
    """What a queue above the ask, or its user in the leaf, may have."""

    used: list[int]
    maximum: Amounts
    leaves: frozenset[int]
    """Whose containers count; all if empty."""
    user: int = -1
    """Of the leaf's containers those of this user alone."""
    is_user: bool = False
    """One who is at the limit, and not above it, may still get one more."""

    def counts(self, leaf: int, user: int) -> bool:
        """Say whether a container counts."""
        return (not self.leaves or leaf in self.leaves) and (self.user < 0 or user == self.user)

    def allows(self, amounts: Amounts) -> bool:
        """Say whether a container may come."""
        if self.is_user:
            return all(used <= most for used, most in zip(self.used, self.maximum, strict=True))
        return all(used + more <= most for used, more, most in zip(self.used, amounts, self.maximum, strict=True))


@dataclass(frozen=True, slots=True)
class Rule:
    """Nodes that are held for asks that are passed over."""

    nodes_max: int
    duration_ms: float


class Budget:
    """How many steps may still be made, in all."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self) -> bool:
        """Make one; False if there is none left."""
        self.left -= 1
        return self.left >= 0


class Forecast:
    """A cluster's free room, who waits for it, and what ends when."""

    def __init__(
        self,
        free: dict[int, list[int]],
        roomy: Sequence[int],
        usable: frozenset[int],
        leaves: dict[int, Leaf],
        limits: list[Limit],
        ends: Iterable[tuple[float, End]],
        rule: Rule,
        held: dict[int, int],
        kept: KeptFree | None = None,
    ) -> None:
        """Begin now.

        Args:
            free: of each node what is free
            roomy: the nodes that have room now for anybody at all
            usable: the nodes that the ask may have
            leaves: by index, with who waits
            limits: what counts for the ask, and for others of its leaf
            ends: milliseconds from now, and what ends then
            rule: of nodes that are held
            held: of each node that is held now the request row
            kept: what nodes keep free for the largest ask, of the ``leaves``; None: nothing
        """
        self._kept = kept
        self._rule = rule
        self._held = {node: (row, rule.duration_ms) for node, row in held.items()}
        self._free, self._roomy, self._usable, self._leaves, self._limits = free, roomy, usable, leaves, limits
        self._ends = [(at_ms, number, end) for number, (at_ms, end) in enumerate(ends)]
        heapify(self._ends)
        self._next = len(self._ends)
        self._ending = sorted({end.node for _, _, end in self._ends if end.node in free})
        waiting = [item.amounts for leaf in leaves.values() for item in leaf.waiting]
        self._least = tuple(map(min, zip(*waiting, strict=True))) if waiting else ()
        self.reached_ms = 0.0
        """How far it came."""

    def served_ms(self, budget: Budget) -> float | None:
        """Return when the ask gets its first container; None if not within the budget (`reached_ms`), or never."""
        for node in self._roomy:
            if self._give(node, 0.0, budget):
                return 0.0
            if budget.left < 0:
                return None
        while self._ends and budget.spend():
            at_ms, _, end = heappop(self._ends)
            self.reached_ms = at_ms
            touched = {end.node}
            self._end(end)
            while self._ends and self._ends[0][0] <= at_ms:
                _, _, end = heappop(self._ends)
                self._end(end)
                touched.add(end.node)
            for node in sorted(touched):
                if self._give(node, at_ms, budget):
                    return at_ms
        return None

    def _end(self, end: End) -> None:
        free = self._free.get(end.node)
        if free is not None:
            _add(free, end.amounts, 1)
        self._charge(end.leaf, end.user, end.amounts, -1)

    def _charge(self, leaf: int, user: int, amounts: Amounts, sign: int) -> None:
        if leaf in self._leaves:
            self._leaves[leaf].charge(amounts, sign)
        for limit in self._limits:
            if limit.counts(leaf, user):
                _add(limit.used, amounts, sign)

    def _give(self, node: int, at_ms: float, budget: Budget) -> bool:
        """Give away what is free on a node; say whether the ask got some of it."""
        free = self._free.get(node)
        while free is not None and fits(self._least, free):
            if not budget.spend():
                return False
            item = self._first(node, free, at_ms)
            if item is None:
                return False
            if item.is_asked:
                return True
            item.count -= 1
            if not item.count:
                self._leaves[item.leaf].waiting.remove(item)
                if self._kept is not None:
                    self._kept.served(item.amounts)
            if self._held.get(node, (-1, 0.0))[0] == item.row:
                del self._held[node]
            _add(free, item.amounts, -1)
            self._charge(item.leaf, item.user, item.amounts, 1)
            duration_ms = item.durations_ms[item.count % len(item.durations_ms)]
            if duration_ms != float("inf"):
                self._next += 1
                end = End(node, item.leaf, item.user, item.amounts)
                heappush(self._ends, (at_ms + duration_ms, self._next, end))
        return False

    def _first(self, node: int, free: list[int], at_ms: float) -> Item | None:
        """Return who is served first of those that a node has room for; hold a node for who is passed over."""
        row, until_ms = self._held.get(node, (-1, 0.0))
        if row >= 0 and until_ms < at_ms:
            del self._held[node]
            row = -1
        passed: Item | None = None
        for leaf in sorted(self._leaves.values(), key=attrgetter("key")):
            for item in leaf.waiting[:ITEMS_LOOKED_AT]:
                if row >= 0 and item.row != row:
                    continue
                if not self._may(leaf, item, node):
                    continue
                if fits(item.amounts, free) and (self._kept is None or self._kept.allows(node, item.amounts, free)):
                    if passed is not None:
                        self._hold(passed, at_ms)
                    return item
                passed = passed or item
        if row >= 0 and not any(item.row == row for leaf in self._leaves.values() for item in leaf.waiting):
            del self._held[node]
        return None

    def _hold(self, item: Item, at_ms: float) -> None:
        """Hold the node that lacks least for an ask that was passed over, unless one is held, or too many are.

        Of the nodes on which something ends: others will not have room.
        """
        for node, (_, until_ms) in list(self._held.items()):
            if until_ms < at_ms:
                del self._held[node]
        if len(self._held) >= self._rule.nodes_max or any(row == item.row for row, _ in self._held.values()):
            return
        lacks = {
            node: max(want - free for want, free in zip(item.amounts, self._free[node], strict=True))
            for node in self._ending
            if node not in self._held and (node in self._usable or not item.is_asked)
        }
        if lacks:
            self._held[min(lacks, key=lambda node: (lacks[node], node))] = (item.row, at_ms + self._rule.duration_ms)

    def _may(self, leaf: Leaf, item: Item, node: int) -> bool:
        if item.is_asked and node not in self._usable:
            return False
        most = leaf.maximum
        if most is not None and not all(
            used + more <= limit for used, more, limit in zip(leaf.used, item.amounts, most, strict=True)
        ):
            return False
        return all(limit.allows(item.amounts) for limit in self._limits if limit.counts(item.leaf, item.user))


def _add(to: list[int], amounts: Amounts, sign: int) -> None:
    for resource, amount in enumerate(amounts):
        to[resource] += sign * amount

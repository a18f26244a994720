"""What nodes keep free for the largest ask (`hold.headroom`), while a forecast serves one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

Amounts = tuple[int, ...]


class KeptFree:
    """Of each node the most of each resource that any ask needs that waits and that the node could hold when empty.

    As `treadle.policy.open_nodes.survey_headroom` finds it; it falls when nobody waits for so much any more.
    """

    def __init__(self, totals: Mapping[int, Amounts], waiting: Iterable[Amounts], others: Iterable[Amounts]) -> None:
        """Look at who waits.

        Args:
            totals: what each node has, by its index
            waiting: what the asks need that may be served, once for each of them
            others: what those need that wait beside them all the time
        """
        self._totals = totals
        self._waiting = Counter(waiting)
        self._others = frozenset(others)
        self._found: dict[Amounts, Amounts] = {}

    def served(self, amounts: Amounts) -> None:
        """Take note that an ask does not wait any more."""
        self._waiting[amounts] -= 1
        if not self._waiting[amounts]:
            del self._waiting[amounts]
            self._found.clear()

    def allows(self, node: int, amounts: Amounts, free: Sequence[int]) -> bool:
        """Say whether a node has room for the largest ask, in every resource that a container needs."""
        kept = self._of(self._totals[node])
        return all(not wanted or there >= most for wanted, there, most in zip(amounts, free, kept, strict=True))

    def _of(self, total: Amounts) -> Amounts:
        """Return what a node keeps free that has so much."""
        found = self._found.get(total)
        if found is None:
            fitting = [amounts for amounts in (*self._waiting, *self._others) if fits(amounts, total)]
            found = tuple(map(max, zip(*fitting, strict=True))) if fitting else (0,) * len(total)
            self._found[total] = found
        return found


def fits(amounts: Amounts, there: Sequence[int]) -> bool:
    """Say whether there is as much of each resource as an ask needs."""
    return all(map(int.__le__, amounts, there))

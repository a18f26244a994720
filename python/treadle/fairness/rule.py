"""How a node's share is measured: what sets one hierarchical algorithm apart from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["HDRF", "NAIVE", "Rule"]


@dataclass(frozen=True)
class Rule:
    """The share of a node, given the vectors of what its children hold.

    `rescale`: a group's vector is the sum of its children's, each child that is not blocked first scaled to the least
    share among them (section 3.4, "Rescaling to Minimum Nodes"); otherwise the plain sum (section 3.3).
    `ignore_saturated`: resources that are fully used do not count in a share (end of section 3.4).
    `measured`: the resources that count, by name; None for all. CapacityScheduler's DefaultResourceCalculator counts
    memory alone, its DominantResourceCalculator all.
    """

    rescale: bool
    ignore_saturated: bool
    measured: frozenset[str] | None = None

    def counted(self, resources: Sequence[str], saturated: Sequence[bool]) -> list[int]:
        """Return the positions of the resources that count in a share, given which are saturated."""
        return [
            position
            for position, name in enumerate(resources)
            if (self.measured is None or name in self.measured) and not (self.ignore_saturated and saturated[position])
        ]


HDRF = Rule(rescale=True, ignore_saturated=True)
"""Dynamic H-DRF (Algorithms 2 to 4)."""

NAIVE = Rule(rescale=False, ignore_saturated=False)
"""Algorithm 1, which started from nothing defines the static allocation and kept running is naive H-DRF (3.3)."""

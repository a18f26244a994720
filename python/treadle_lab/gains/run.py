"""Which cells there are, in the order in which they run: draw by draw, so that a run that stops has whole draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from treadle.errors import UserError
from treadle_lab.gains.cell import Simulated
from treadle_lab.gains.policies import QUICK, names_at
from treadle_lab.gains.traces import FIRST_SEED
from treadle_lab.gains.workloads import HOURS, POINTS

QUICK_X: Final = ("Google 2011: load 0.95", "Spark TPC-H: load 0.9, unlimited, idle 60 s")
QUICK_DRAWS: Final = 3
QUICK_HOURS: Final = 4.0
DRAWS: Final = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """What of the experiment is wanted."""

    xs: tuple[str, ...]
    policies: Callable[[str], Sequence[str]]
    draws: int
    hours: float = HOURS
    """Of a window of a trace."""

    def cells(self) -> list[Simulated]:
        """Return all cells; those of a point and a seed one after another, which then draw their jobs once."""
        return [
            Simulated(x, policy, seed, self.hours)
            for seed in range(FIRST_SEED, FIRST_SEED + self.draws)
            for x in self.xs
            for policy in self.policies(x)
        ]


def whole(only: Sequence[str] = (), draws: int = DRAWS) -> Plan:
    """Return the whole experiment, or the points that have one of the texts ``only`` in their names.

    Raises:
        UserError: a text is in no name.
    """
    for text in only:
        if not any(text in x for x in POINTS):
            raise UserError(f"--only: no point has {text!r} in its name; there are {', '.join(POINTS)}")
    xs = tuple(x for x in POINTS if not only or any(text in x for text in only))
    return Plan(xs, lambda x: names_at(POINTS[x]), draws)


def quick() -> Plan:
    """Return what takes ten minutes on two cores."""
    return Plan(QUICK_X, lambda x: QUICK, QUICK_DRAWS, QUICK_HOURS)

"""Constraints made for a trace: which jobs ask for what, and which machines have it.

The paper's shares of constraints are lost. What it says: over half of the tasks are constrained, 80 % of constraints
ask for an ISA, a number of cores or a network, and each of the nine kinds of table II slows jobs by so much. Supply is
not given. Here the share of machines that meet a kind of constraint is `supply` over its slowdown, and `supply` is
calibrated (`treadle_lab.papers.phoenix.calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.constraints.expression import Predicate, conjunction
from treadle_lab.models.workers.trace import Trace
from treadle_lab.papers.phoenix.files import Asked, Machines, Wanted


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of constraint.

    Attributes:
        name: of the attribute.
        slowdown: of jobs with it (table II).
        share: of all constraints; our reading.
        values: that are asked for; each next one is met by half as many machines.
        is_least: whether the value is asked for as the least one, so that machines with a later one meet it too.
        is_soft: whether it can be given up.
    """

    name: str
    slowdown: float
    share: float
    values: tuple[str, ...]
    is_least: bool = False
    is_soft: bool = False


KINDS: Final = (
    Kind("isa", 2.03, 0.35, ("power", "arm")),
    Kind("cores", 1.90, 0.25, ("16", "32"), is_least=True),
    Kind("network_gbps", 1.91, 0.20, ("10", "25"), is_least=True, is_soft=True),
    Kind("nodes", 1.96, 0.04, ("64", "256"), is_least=True),
    Kind("max_disks", 1.90, 0.04, ("12", "24"), is_least=True),
    Kind("kernel", 1.77, 0.04, ("4.14", "5.4"), is_least=True),
    Kind("platform", 1.77, 0.04, ("b", "c")),
    Kind("clock_ghz", 1.76, 0.03, ("3.0", "3.5"), is_least=True, is_soft=True),
    Kind("min_disks", 0.91, 0.01, ("1", "2"), is_least=True),
)
"""Table II; ISA, cores and network have 80 % of constraints."""
CONSTRAINED: Final = 0.55
"""Share of tasks whose jobs have a constraint."""
MORE: Final = 0.3
"""Share of constrained jobs that have a second constraint."""
SHARE_MAX: Final = 0.95


def shares(kind: Kind, supply: float) -> list[float]:
    """Return for each value the share of machines that meet it when asked for."""
    share = min(SHARE_MAX, supply / kind.slowdown)
    return [share / 2**at for at in range(len(kind.values))]


def machines(slots: int, supply: float, random: np.random.Generator) -> Machines:
    """Return machines with attributes; the number of machines that meet a value is exact."""
    columns = {kind.name: _column(kind, slots, supply, random) for kind in KINDS}
    return Machines(slots, columns)


def _column(kind: Kind, slots: int, supply: float, random: np.random.Generator) -> list[str]:
    column = ["0" if kind.is_least else "common"] * slots
    order = random.permutation(slots)
    counts = [max(1, round(share * slots)) for share in shares(kind, supply)]
    at = 0
    for value, count, above in zip(kind.values, counts, [*counts[1:], 0], strict=True):
        own = count - above if kind.is_least else count
        for machine in order[at : at + own]:
            column[machine] = value
        at += own
    return column


def asked(trace: Trace, random: np.random.Generator, constrained: float = CONSTRAINED) -> dict[int, Asked]:
    """Return the constraints of jobs, by their places in the trace; so large a share of tasks has one."""
    order = random.permutation(len(trace))
    tasks = np.cumsum(trace.tasks[order])
    chosen = order[: int(np.searchsorted(tasks, constrained * tasks[-1])) + 1]
    weights = np.array([kind.share for kind in KINDS])
    return {int(job): _asked(weights / weights.sum(), random) for job in np.sort(chosen)}


def _asked(weights: npt.NDArray[np.float64], random: np.random.Generator) -> Asked:
    count = 2 if random.random() < MORE else 1
    hard: list[Predicate] = []
    soft: list[Predicate] = []
    for place in random.choice(len(KINDS), size=count, replace=False, p=weights):
        kind = KINDS[int(place)]
        value = kind.values[int(random.integers(len(kind.values)))]
        predicate = Predicate(kind.name, ">=" if kind.is_least else "=", (value,))
        (soft if kind.is_soft else hard).append(predicate)
    return Asked(conjunction(tuple(hard)), conjunction(tuple(soft)))


def made_for(trace: Trace, slots: int, supply: float, seed: int, constrained: float = CONSTRAINED) -> Wanted:
    """Return what machines have and jobs ask for, drawn from a seed."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    have = machines(slots, supply, random)
    return Wanted(have, {job: _met(one, have) for job, one in asked(trace, random, constrained).items()})


def _met(wanted: Asked, have: Machines) -> Asked:
    """Return what a job asks for, with one hard condition left of two that no machine of a small cluster meets."""
    if have.meeting(wanted.hard).any():
        return wanted
    return replace(wanted, hard=conjunction(wanted.hard.predicates[:1]))

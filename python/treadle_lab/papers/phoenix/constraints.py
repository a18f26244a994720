"""Machines and constraints that are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.constraints import Conjunction, Predicate, conjunction
from treadle.errors import UserError
from treadle_lab.models.worker_state import Trace
from treadle_lab.models.workers import Eligible, Groups

ELIGIBLE_BYTES_MAX: Final = 2_000_000_000

Flags = npt.NDArray[np.bool_]


class Machines:
    """Values of machines, by attribute.

    Args:
        slots: how many machines there are
        columns: the value of each machine for each attribute; empty where it has none
    """

    def __init__(self, slots: int, columns: Mapping[str, Sequence[str]]) -> None:
        """Keep the different values of each attribute, and which of them each machine has."""
        self.slots = slots
        self._columns = {name: np.unique(np.array(column), return_inverse=True) for name, column in columns.items()}
        self._known: dict[Predicate, Flags] = {}

    def meeting(self, wanted: Conjunction) -> Flags:
        """Return for each machine whether it meets a conjunction."""
        eligible = np.ones(self.slots, np.bool_)
        for predicate in wanted.predicates:
            if predicate not in self._known:
                values, codes = self._columns[predicate.name]
                holds = [predicate.holds((str(value),) if value else ()) for value in values]
                self._known[predicate] = np.array(holds, np.bool_)[codes]
            eligible &= self._known[predicate]
        return eligible


@dataclass(frozen=True, slots=True)
class JobConstraints:
    """The constraints of a job.

    Attributes:
        hard: without which its tasks cannot run.
        soft: without which they run longer.
    """

    hard: Conjunction
    soft: Conjunction


@dataclass(frozen=True, slots=True)
class TraceConstraints:
    """Values of machines, and constraints of jobs by their places in the trace."""

    machines: Machines
    asked: Mapping[int, JobConstraints]


def eligible_of(trace: Trace, wanted: TraceConstraints) -> Eligible:
    """Return who may run where.

    A soft constraint that no machine meets together with the hard ones is left out.

    Args:
        trace: the jobs
        wanted: of them; the first machines are in front of the long partition

    Raises:
        UserError: no machine meets a job's hard constraints.
    """
    machines = wanted.machines
    groups = Groups(machines.slots)
    rows: dict[Conjunction, int] = {}
    full, hard = np.zeros(len(trace), np.int32), np.zeros(len(trace), np.int32)
    constrained = np.zeros(len(trace), np.bool_)
    for job, own in wanted.asked.items():
        hard[job] = _group(own.hard, machines, groups, rows)
        if hard[job] < 0:
            raise UserError(f"job {job}: no machine meets {own.hard.text()!r}; ask for less")
        both = _group(own.hard & own.soft, machines, groups, rows)
        full[job] = hard[job] if both < 0 else both
        constrained[job] = bool(own.hard.predicates or own.soft.predicates)
    return Eligible(np.array(groups.rows), full, hard, constrained)


def _group(wanted: Conjunction, machines: Machines, groups: Groups, rows: dict[Conjunction, int]) -> int:
    """Return the number of the group of machines that satisfy a conjunction; -1 if there is none."""
    if wanted not in rows:
        eligible = machines.meeting(wanted)
        rows[wanted] = groups.number(eligible) if eligible.any() else -1
        if len(groups.rows) * machines.slots > ELIGIBLE_BYTES_MAX:
            raise UserError(
                f"{len(groups.rows)} sets of machines that jobs may run on are too many; give jobs equal requirements"
            )
    return rows[wanted]


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
    """Return for each value the fraction of machines that satisfy a request for it."""
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


def asked(trace: Trace, random: np.random.Generator) -> dict[int, JobConstraints]:
    """Return the constraints of jobs, by their places in the trace; `CONSTRAINED` of all tasks have one."""
    order = random.permutation(len(trace))
    tasks = np.cumsum(trace.tasks[order])
    chosen = order[: int(np.searchsorted(tasks, CONSTRAINED * tasks[-1])) + 1]
    weights = np.array([kind.share for kind in KINDS])
    return {int(job): _asked(weights / weights.sum(), random) for job in np.sort(chosen)}


def _asked(weights: npt.NDArray[np.float64], random: np.random.Generator) -> JobConstraints:
    count = 2 if random.random() < MORE else 1
    hard: list[Predicate] = []
    soft: list[Predicate] = []
    for place in random.choice(len(KINDS), size=count, replace=False, p=weights):
        kind = KINDS[int(place)]
        value = kind.values[int(random.integers(len(kind.values)))]
        predicate = Predicate(kind.name, ">=" if kind.is_least else "=", (value,))
        (soft if kind.is_soft else hard).append(predicate)
    return JobConstraints(conjunction(tuple(hard)), conjunction(tuple(soft)))


def made_for(trace: Trace, slots: int, supply: float, seed: int) -> TraceConstraints:
    """Return what machines have and jobs ask for, drawn from a seed."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    have = machines(slots, supply, random)
    return TraceConstraints(have, {job: _met(one, have) for job, one in asked(trace, random).items()})


def _met(wanted: JobConstraints, have: Machines) -> JobConstraints:
    """Return a job's constraints, less one of two hard conditions that no machine of a small cluster satisfies."""
    if have.meeting(wanted.hard).any():
        return wanted
    return replace(wanted, hard=conjunction(wanted.hard.predicates[:1]))

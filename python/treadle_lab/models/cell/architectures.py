"""Who schedules a cell, and how: the architectures that Omega's paper compares (section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from treadle_lab.models.cell.workload import JobKind


@dataclass(frozen=True, slots=True)
class Architecture:
    """Schedulers over a cell.

    Attributes:
        name: as in tables of results.
        title: of plots.
        schedulers: their names; the kinds of jobs that each serves follow from `serves`.
        serves: for each kind of job the places of the schedulers that serve it, in turn.
        multi_path: a decision takes as long as its job's kind says; without it all take as long as a service job's.
        shared_state: several schedulers with private copies, which commit optimistically.
        offers: two levels, as in Mesos.
        coarse: a claim conflicts if its machine's sequence number has changed.
        gang: all claims of a transaction or none.
    """

    name: str
    title: str
    schedulers: tuple[str, ...]
    serves: Mapping[JobKind, tuple[int, ...]]
    multi_path: bool = True
    shared_state: bool = False
    offers: bool = False
    coarse: bool = False
    gang: bool = False


def shared_state(name: str, title: str, batch: int = 1, *, coarse: bool = False, gang: bool = False) -> Architecture:
    """Return Omega's architecture with this many batch schedulers, among which batch jobs are dealt round robin."""
    names = ("S", *(f"B{number}" for number in range(1, batch + 1)))
    serves = {JobKind.SERVICE: (0,), JobKind.BATCH: tuple(range(1, batch + 1))}
    return Architecture(name, title, names, serves, shared_state=True, coarse=coarse, gang=gang)


def with_specialist() -> Architecture:
    """Return Omega's architecture with a scheduler of its own for MapReduce jobs (section 6)."""
    serves = {JobKind.SERVICE: (0,), JobKind.BATCH: (1,), JobKind.MAPREDUCE: (2,)}
    title = "shared state with a scheduler for MapReduce"
    return Architecture("omega-mapreduce", title, ("S", "B1", "M1"), serves, shared_state=True)


_ALL = {JobKind.BATCH: (0,), JobKind.SERVICE: (0,)}

ARCHITECTURES: Final[dict[str, Architecture]] = {
    one.name: one
    for one in (
        Architecture("mono1", "monolithic, single path", ("M",), _ALL, multi_path=False),
        Architecture("mono2", "monolithic, multi path", ("M",), _ALL),
        Architecture(
            "mesos", "two levels (Mesos)", ("S", "B"), {JobKind.SERVICE: (0,), JobKind.BATCH: (1,)}, offers=True
        ),
        shared_state("omega", "shared state (Omega)"),
        shared_state("omega-seq", "shared state, coarse", coarse=True),
        shared_state("omega-aon", "shared state, gang", gang=True),
        shared_state("omega-seq-aon", "shared state, coarse, gang", coarse=True, gang=True),
        shared_state("omega4", "shared state, 4 batch schedulers", 4),
    )
}
"""Of the reference's runs; `shared_state` makes others."""

"""Which workers may run which jobs: groups of workers, each once, and each job's two groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I32

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Eligible:
    """Who may run where; group 0 is all workers.

    Attributes:
        workers: of each group, shape (groups, workers).
        full: each job's group by all its constraints, soft ones too.
        hard: each job's group by its hard constraints.
        constrained: whether each job has a constraint.
    """

    workers: Flags
    full: I32
    hard: I32
    constrained: Flags


def unconstrained(jobs: int, workers: int) -> Eligible:
    """Return that every job may run everywhere."""
    nothing = np.zeros(jobs, np.int32)
    return Eligible(np.ones((1, workers), np.bool_), nothing, nothing, np.zeros(jobs, np.bool_))


class Groups:
    """Collects groups; the same workers are one group."""

    def __init__(self, workers: int) -> None:
        """Begin with all workers."""
        self.rows: list[Flags] = [np.ones(workers, np.bool_)]
        self._known = {self.rows[0].tobytes(): 0}

    def number(self, workers: Flags) -> int:
        """Return a group's number."""
        key = workers.tobytes()
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(workers)
        return self._known[key]

    def eligible(self, full: Sequence[int], hard: Sequence[int], constrained: Flags) -> Eligible:
        """Return who may run where."""
        return Eligible(np.array(self.rows), np.array(full, np.int32), np.array(hard, np.int32), constrained)

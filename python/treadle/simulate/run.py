"""The result of one simulation: its jobs, tasks, nodes and queues as tables of numpy, and its figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.compiled.array_types import F64, Records
from treadle.simulate.figures import completion_s, slowdown
from treadle.simulator.loop import Run as Simulated
from treadle.simulator.records import TASK, job_records, node_records, queue_records, task_records
from treadle.simulator.results import Summary, summarise


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One policy with one seed. Every table has the same rows under every policy, so that runs can be paired.

    docs/simulate-from-python.md has the columns.
    """

    policy: str
    seed: int
    summary: Summary
    """The figures that `treadle simulate` shows."""
    jobs: Records
    tasks: Records
    nodes: Records
    queues: Records

    @property
    def warnings(self) -> list[str]:
        """What the engine said of the policy on this cluster."""
        return self.summary.warnings

    @property
    def completion_s(self) -> F64:
        """How long each job took from its arrival to its end, shape (jobs,); NaN for one that did not end well."""
        return completion_s(self.jobs)

    @property
    def slowdown(self) -> F64:
        """How many times as long as the bound ``ideal_ms`` each job took, shape (jobs,); NaN as `completion_s`."""
        return slowdown(self.jobs)


def run_of(simulated: Simulated, policy: str, seed: int, *, tasks: bool = True) -> Run:
    """Return the result of a simulation; without ``tasks`` their table is empty."""
    return Run(
        policy,
        seed,
        summarise(simulated, policy, seed),
        job_records(simulated),
        task_records(simulated) if tasks else np.zeros(0, TASK),
        node_records(simulated),
        queue_records(simulated),
    )

"""Runs a trace under a system, and says how long its jobs took and its tasks waited."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from treadle.compiled.array_types import F64, I32
from treadle_lab.models.workers.eligible import Eligible, unconstrained
from treadle_lab.models.workers.run import run_workers
from treadle_lab.models.workers.systems import SYSTEMS, System
from treadle_lab.models.workers.tables import RELAXED_SLOWDOWN, new_workers
from treadle_lab.models.workers.trace import Trace, trace_of


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of a run.

    Attributes:
        response_s: of each job, from its arrival to the end of its last task.
        queued_s: of each task, from its job's arrival to its start.
        relaxed: of each job, tasks that ran where a soft constraint of theirs is not met.
        reordered: of each job, tasks that were taken instead of the one that SRPT would have taken; None if nobody
            counted them.
        cpu_s: processor time of the run, without making its tables.
    """

    response_s: F64
    queued_s: F64
    relaxed: I32
    reordered: I32 | None
    cpu_s: float


def simulate_workers(
    system: System,
    trace: Trace,
    slots: int,
    eligible: Eligible | None = None,
    *,
    seed: int = 0,
    relaxed_slowdown: float = RELAXED_SLOWDOWN,
) -> Outcome:
    """Run a trace to its end.

    Args:
        system: who schedules
        trace: the jobs
        slots: how many workers there are, each with one slot
        eligible: who may run where; default: every job everywhere
        seed: of all draws
        relaxed_slowdown: by how much longer a task runs where a soft constraint of it is not met
    """
    state = new_workers(system, trace, eligible or unconstrained(len(trace), slots), seed, relaxed_slowdown)
    began_s = time.thread_time()
    run_workers(state)
    cpu_s = time.thread_time() - began_s
    return Outcome(
        state.ended_s - trace.arrival_s,
        state.start_s - np.repeat(trace.arrival_s, trace.tasks),
        state.relaxed,
        state.reordered,
        cpu_s,
    )


def warm_up() -> None:
    """Compile, or read what was compiled before, so that no run's time has it."""
    simulate_workers(SYSTEMS["eagle"], trace_of("none", [0.0], [[1.0]]), 1)

"""Runs the engine several times, each in a process of its own: it is Python for the most part."""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, TypeAlias

from treadle.errors import UserError
from treadle.lab.reproduce.phoenix.central import CENTRAL, simulate_central, warm_up_central
from treadle.lab.reproduce.phoenix.files import Wanted
from treadle.simulator.workers.eligible import Eligible
from treadle.simulator.workers.trace import Trace
from treadle.simulator.workers.workers import Outcome

Progress = Callable[[int, int], None]
"""Called with (jobs that have ended, all jobs of all runs)."""

MOMENT_S: Final = 0.5
CPU_S_PER_HOUR: Final = 5.0
CPU_S_PER_TASK: Final = 0.001
"""About what a run takes: an hour of the trace has 3,600 decisions, of which many find nothing to do."""


@dataclass(frozen=True, slots=True)
class CentralRun:
    """All that a run depends on."""

    name: str
    trace: Trace
    slots: int
    wanted: Wanted
    eligible: Eligible
    seed: int
    relaxed_slowdown: float


Told: TypeAlias = "multiprocessing.queues.Queue[tuple[int, int]]"
"""Takes (which run, jobs of it that have ended)."""

_told: list[Told] = []
"""In a process that runs: where it says how far it is."""


def about_cpu_s(trace: Trace) -> float:
    """Return about how much processor time a run takes."""
    return CPU_S_PER_HOUR * float(trace.arrival_s[-1]) / 3600 + CPU_S_PER_TASK * len(trace.duration_s)


def run_central(runs: Sequence[CentralRun], progress: Progress | None = None) -> list[Outcome]:
    """Run all, on all cores; results do not depend on how many there are.

    Raises:
        UserError: a run ended with jobs that nothing would ever serve.
    """
    if not runs:
        return []
    # once, so that the processes find compiled code
    warm_up_central(dict.fromkeys(run.name for run in runs))
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    told = context.Queue()
    ended, jobs = [0] * len(runs), sum(len(run.trace) for run in runs)
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(runs)), context, _begin, (told,)) as pool:
        waiting = [pool.submit(_one, place, run) for place, run in enumerate(runs)]
        try:
            left = set(waiting)
            while left:
                left = wait(left, MOMENT_S).not_done
                for place, count in _news(told):
                    ended[place] = count
                if progress is not None:
                    progress(sum(ended), jobs)
            found = [each.result() for each in waiting]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [_outcome(each) for each in found]


def _news(told: Told) -> list[tuple[int, int]]:
    found = []
    while True:
        try:
            found.append(told.get_nowait())
        except queue.Empty:
            return found


def _outcome(found: Outcome | str) -> Outcome:
    if isinstance(found, str):
        raise UserError(found)
    return found


def _begin(told: Told) -> None:
    _told[:] = [told]


def _one(place: int, run: CentralRun) -> Outcome | str:
    """Run one; return the text of a mistake, since an exception may not travel between processes."""
    try:
        return simulate_central(
            CENTRAL[run.name],
            run.trace,
            run.slots,
            run.wanted,
            run.eligible,
            seed=run.seed,
            relaxed_slowdown=run.relaxed_slowdown,
            progress=lambda ended, _: _told[0].put((place, ended)),
        )
    except UserError as error:
        return str(error)

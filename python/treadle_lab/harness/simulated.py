"""Runs a simulation of an experiment, whose jobs must all end under the very policy that was asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treadle.compiled.array_types import F64
from treadle.simulator.cluster.state import AppState
from treadle.simulator.loop import Run
from treadle.simulator.simulation import Simulation

Progress = Callable[[str, int, int], None]
"""Called with (what runs, jobs done, all jobs) now and then."""


def run_to_the_end(simulation: Simulation, title: str, progress: Progress | None = None) -> tuple[Run, F64]:
    """Return the run, and the completion time of each job in ms, from its arrival to its end.

    Raises:
        AssertionError: a job has not ended, or something of the settings was not followed.
    """

    def report(finished: int, jobs: int, _now_ms: int) -> None:
        if progress is not None:
            progress(title, finished, jobs)

    run = simulation.run(report)
    apps = run.built.state.apps
    if not bool((apps["state"] == AppState.FINISHED).all()):
        raise AssertionError(f"{title} left jobs undone")
    if run.warnings:
        raise AssertionError(f"{title} is not followed as it is written: {'; '.join(run.warnings)}")
    return run, (apps["finish_ms"] - apps["arrival_ms"]).astype(np.float64)

"""Runs systems on a trace with several seeds, with constraints that are calibrated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle_lab.harness.runs import RunSettings
from treadle_lab.models.kernels import Progress, on_all_cores
from treadle_lab.models.worker_state import Trace
from treadle_lab.models.workers import RELAXED_SLOWDOWN, SYSTEMS, Eligible, Outcome, simulate_workers, warm_up
from treadle_lab.papers.phoenix.central import CENTRAL, CentralRun, run_central
from treadle_lab.papers.phoenix.constraints import CONSTRAINED, KINDS, TraceConstraints, eligible_of

Flags = npt.NDArray[np.bool_]
Row = dict[str, Any]
"""A class of jobs of a run; ``reordered`` is None if not counted."""

CLASSES: Final = ("short", "long", "short-constrained", "short-unconstrained")


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """The setup of runs.

    Attributes:
        trace: the jobs, with `faster` in it.
        slots: number of workers.
        faster: divisor of arrival times.
        wanted: properties of machines and constraints of jobs, by seed; the same for every system.
        relaxed_slowdown: slowdown of a task where a soft constraint of it is not met.
    """

    trace: Trace
    slots: int
    faster: float
    wanted: Callable[[int], TraceConstraints]
    relaxed_slowdown: float = RELAXED_SLOWDOWN


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One system with one seed.

    Attributes:
        system: its name.
        seed: of constraints and draws.
        rows: a row of figures for each class of jobs that there is.
        response_s: of each job.
        outcome: of each job and task, of the first seed alone.
    """

    system: str
    seed: int
    rows: Sequence[Row]
    response_s: npt.NDArray[np.float64] = field(repr=False)
    outcome: Outcome | None = field(default=None, repr=False)

    def figure(self, name: str, figure: str) -> float | None:
        """Return a figure of a class; None if no job is of that class."""
        found = next((row[figure] for row in self.rows if row["class"] == name), None)
        return None if found is None else float(found)


def classes(trace: Trace, constrained: Flags) -> Mapping[str, Flags]:
    """Return which jobs are of each class."""
    short = ~trace.is_long
    return dict(zip(CLASSES, (short, ~short, short & constrained, short & ~constrained), strict=True))


def run_systems(
    names: Sequence[str],
    setup: Setup,
    seeds: Sequence[int],
    progress: Progress | None = None,
    settings: RunSettings | None = None,
) -> list[Run]:
    """Run each system with each seed, which gives the same constraints for all systems.

    Args:
        names: of systems, those of the engine itself among them
        setup: the setup
        seeds: of constraints and draws
        progress: called with the runs that have ended, those of the engine last and by themselves
        settings: where runs of the engine are kept, and how many run at a time

    Returns:
        Runs by system, then seed.
    """
    central = [name for name in names if name in CENTRAL]
    eligible = lru_cache(maxsize=4)(lambda seed: eligible_of(setup.trace, setup.wanted(seed)))
    wanted = [(seed, name) for seed in seeds for name in names if name not in central]
    if wanted:
        warm_up()
    done = on_all_cores(lambda one: _run(setup, eligible(one[0]), *one, keep=one[0] == seeds[0]), wanted, progress)
    done += _run_central(central, setup, seeds, progress, settings)
    found = {(run.system, run.seed): run for run in done}
    return [found[name, seed] for name in names for seed in seeds]


def _run_central(
    names: Sequence[str], setup: Setup, seeds: Sequence[int], progress: Progress | None, settings: RunSettings | None
) -> list[Run]:
    """Run the engine itself."""
    if not names:
        return []
    runs = []
    for seed in seeds:
        wanted = setup.wanted(seed)
        eligible = eligible_of(setup.trace, wanted)
        runs += [
            CentralRun(name, setup.trace, setup.slots, wanted, eligible, seed, setup.relaxed_slowdown) for name in names
        ]
    outcomes = run_central(runs, progress, settings)
    return [
        _figures(setup, run.eligible, run.seed, run.name, outcome, keep=run.seed == seeds[0])
        for run, outcome in zip(runs, outcomes, strict=True)
    ]


def _run(setup: Setup, eligible: Eligible, seed: int, name: str, *, keep: bool) -> Run:
    system, trace = SYSTEMS[name], setup.trace
    outcome = simulate_workers(system, trace, setup.slots, eligible, seed=seed, relaxed_slowdown=setup.relaxed_slowdown)
    return _figures(setup, eligible, seed, name, outcome, keep=keep)


def _figures(setup: Setup, eligible: Eligible, seed: int, name: str, outcome: Outcome, *, keep: bool) -> Run:
    """Return a run with a row for each class of jobs that there is."""
    trace = setup.trace
    load = trace.offered_load(setup.slots)
    rows: list[Row] = []
    for kind, jobs in classes(trace, eligible.constrained).items():
        if not jobs.any():
            continue
        p50, p90, p99 = np.percentile(outcome.response_s[jobs], [50, 90, 99])
        queued_s = outcome.queued_s[np.repeat(jobs, trace.tasks)]
        rows.append(
            {
                "system": name,
                "trace": trace.name,
                "slots": setup.slots,
                "faster": setup.faster,
                "seed": seed,
                "class": kind,
                "jobs": int(jobs.sum()),
                "mean_s": float(outcome.response_s[jobs].mean()),
                "p50_s": float(p50),
                "p90_s": float(p90),
                "p99_s": float(p99),
                "queueing_p99_s": float(np.percentile(queued_s, 99)),
                "offered_load": load,
                "relaxed": int(outcome.relaxed[jobs].sum()),
                "reordered": None if outcome.reordered is None else int(outcome.reordered[jobs].sum()),
                "cpu_s": round(outcome.cpu_s, 3),
            }
        )
    return Run(name, seed, rows, outcome.response_s, outcome if keep else None)


SUPPLY: Final = 0.585
"""By calibration: the share of machines that meet a constraint is this over the kind's slowdown."""


def calibration() -> dict[str, object]:
    """Return how constraints were made, for results.

    The target is the P99 of short jobs under Eagle-C over that under Eagle (section III-B), measured the same with this
    supply. Arrival times were divided so that the load is 81 %.
    """
    return {
        "target": 1.7,
        "ratio": "eagle-c/eagle short p99_s",
        "supply": SUPPLY,
        "measured": 1.74,
        "seeds": list(range(1, 11)),
        "slots": 15_000,
        "faster": 1.7,
        "constrained": CONSTRAINED,
        "kinds": {kind.name: {"slowdown": kind.slowdown, "share": kind.share} for kind in KINDS},
    }

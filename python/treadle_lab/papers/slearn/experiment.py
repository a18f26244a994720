"""SLearn's evaluation on the Google 2011 workload (NSDI 2022, section 5.2), in the simulator with the same engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation
from treadle.workload.generate import CONTAINER
from treadle_lab.harness.simulated import Progress, run_to_the_end
from treadle_lab.papers.slearn.levels import levels
from treadle_lab.papers.slearn.model import Model
from treadle_lab.papers.slearn.paper import NODES
from treadle_lab.papers.slearn.schemes import Scheme, slearn
from treadle_lab.papers.slearn.trace import Trace

THIN_LIMITS: Final = (2, 3, 4, 5, 6)
RATIOS: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0)

BARRIERS: Final = {"heartbeat_ms": 0, "tez_min_fraction": 1.0, "tez_max_fraction": 1.0, "tez_reuse": False}
"""A stage asks for containers when the one before it has ended, for each task one of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of one draw of jobs."""

    trace: Trace
    completion_ms: dict[str, F64]
    """By scheme, of each job, from its arrival to the end of its last task."""
    wall_s: dict[str, float]
    wait_ms: dict[str, F64] = field(default_factory=dict)
    """By scheme, how long the tasks of each job wait from its arrival to their start, in the mean; of the model."""

    def mean_s(self, scheme: str) -> float:
        """Return the mean completion time."""
        return float(self.completion_ms[scheme].mean()) / 1000

    def speedup_mean(self, scheme: str, by: str = "slearn") -> float:
        """Return the mean completion time of a scheme over that of SLearn."""
        return self.mean_s(scheme) / self.mean_s(by)

    def speedup_wide(self, scheme: str) -> float:
        """Return the mean completion time of wide jobs over that with SLearn."""
        wide = self.trace.wide
        return float(self.completion_ms[scheme][wide].mean() / self.completion_ms["slearn"][wide].mean())

    def speedup_p50(self, scheme: str) -> float:
        """Return the median over jobs of completion time over that with SLearn."""
        return float(np.median(self.completion_ms[scheme] / self.completion_ms["slearn"]))

    def gain_s(self, scheme: str) -> float:
        """Return by how much a scheme's mean completion time is shorter than SLearn's."""
        return self.mean_s("slearn") - self.mean_s(scheme)

    def errors(self, estimator: str) -> F64:
        """Return how far off an estimator is for each wide job, in percent of the true duration."""
        wide = self.trace.wide
        true_ms = self.trace.true_ms[wide]
        return np.asarray(100.0 * np.abs(self.trace.estimated_ms[estimator][wide] - true_ms) / true_ms)

    def right_queue(self, estimator: str) -> float:
        """Return the percentage of wide jobs whose estimated size is of the same level as their true size."""
        trace, wide = self.trace, self.trace.wide
        right = levels(trace.estimated_ms[estimator] * trace.widths) == levels(trace.true_ms * trace.widths)
        return 100.0 * float(right[wide].mean())


def scenario_of(nodes: int) -> Scenario:
    """Return a cluster of nodes with one slot each, of which everything is heard at once.

    Decisions are made when something happens, at the next tenth of a second.
    """
    return Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": nodes, "resources": dict(CONTAINER)}], "heartbeat_ms": 0},
            "frameworks": BARRIERS,
            "decision": {"tick_ms": 100, "idle_ms": 2**40},
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},
            "report": {"window_s": 1e6},
        }
    )


class Ran(NamedTuple):
    """What a run has shown."""

    completion_ms: F64
    """Of each job."""
    wall_s: float
    """How long the simulation took."""
    wait_ms: F64 | None
    """See `Outcome`; None where it was not taken."""


def run_scheme(trace: Trace, scheme: Scheme, nodes: int = NODES, progress: Progress | None = None) -> Ran:
    """Run a draw under a scheme, on the engine in the simulator."""
    hints = trace.hints[scheme.hints] if scheme.hints else None
    settings = scheme.settings(trace.seed)
    simulation = Simulation(scenario_of(nodes), trace.workload, settings, trace.seed, check=False, hints=hints)
    run, completion_ms = run_to_the_end(simulation, scheme.title, progress)
    return Ran(completion_ms, run.wall_s, None)


def run_model(trace: Trace, scheme: Scheme, nodes: int = NODES, progress: Progress | None = None) -> Ran:
    """Run the same by the plain model in place of the engine."""
    began = time.perf_counter()
    if progress is not None:
        progress(scheme.title, 0, len(trace.widths))
    model = Model(trace, scheme, nodes)
    return Ran(model.run(), time.perf_counter() - began, model.wait_ms)


def variants() -> dict[str, Scheme]:
    """Return SLearn with the paper's other thin limits and fixed ratios (tables 6 and 13)."""
    found = {f"thin {limit}": slearn(f"thin {limit}", f"thin limit {limit}", thin_limit=limit) for limit in THIN_LIMITS}
    for ratio in RATIOS:
        name = f"ratio {ratio:g}"
        found[name] = slearn(name, f"fixed ratio {ratio:g} %", ratio="fixed", ratio_percent=ratio)
    return found

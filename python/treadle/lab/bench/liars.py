"""What applications gain that lie: every policy simulated with true and with false hints about their tasks.

Ten jobs of a liar among forty of others, in one queue or in one of two. There are two lies. Either each
application reports its own tasks, as application masters with the plug-in do, and the liar's say that none is left and
that one takes a millisecond. Or a store has the earlier runs of each job, and the liar calls his long jobs
like a short one of his own that comes back every day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.events import Event
from treadle.lab.bench.lies import Lie
from treadle.simulator.feed import JobHints
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import completion_s
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation
from treadle.words import counted

SLOT: Final = {"memory-mb": 1024, "vcores": 1}
NODES: Final = 10
SLOTS: Final = 4
LIARS: Final = 10
OTHERS: Final = 40
TASKS: Final = (10, 120)
"""The fewest and the most of a job; the liar's have most."""

DURATION_S: Final = 20.0
EVERY_S: Final = 20.0
"""Jobs come so often in the mean: somewhat more than the cluster can serve."""

LIE_MS: Final = 1

NAMED_MS: Final = 1_000
"""How long a task runs of the liar's short job."""

DEVIATION_PART: Final = 0.1
"""Deviation of a store's hints, as a part of the duration: its jobs are much alike each time."""


FRAMEWORKS: Final = {Lie.TASKS: "tez", Lie.NAMES: "mapreduce"}
"""Masters of Tez say something of their tasks; jobs of MapReduce have pilots, who see through a name."""


@dataclass(frozen=True, slots=True)
class Liar:
    """What lying was worth under a policy."""

    policy: str
    lie: Lie
    queues: int
    """1: all are in one queue; 2: the liar has one of two alike."""
    true_s: float
    """Mean completion time of the liar's jobs when its hints are true."""
    false_s: float
    """And when he lies."""
    gain: float
    """How many times as fast he is with lies."""
    others: float
    """How many times as long the others' jobs take, in the mean."""


class _Deceived(Engine):
    """An engine that hears of tasks from their own applications, or goes by their names; some lie."""

    def __init__(self, settings: Settings, lie: Lie, liars: frozenset[int]) -> None:
        super().__init__(settings)
        self._heard = self._claim if lie is Lie.TASKS else self._remember
        self._liars = np.array(sorted(liars), np.int32)

    def apply(self, found: Sequence[Event]) -> None:
        """Take a frame; what it says of tasks is what their applications claim, or what is known by their names."""
        super().apply([self._heard(event) if type(event) is events.TaskEstimates else event for event in found])

    def _remember(self, event: events.TaskEstimates) -> events.TaskEstimates:
        duration_ms = np.where(np.isin(event.application, self._liars), NAMED_MS, event.duration_ms)
        deviation_ms = np.rint(DEVIATION_PART * duration_ms).astype(np.int64)
        return replace(event, duration_ms=duration_ms, deviation_ms=deviation_ms)

    def _claim(self, event: events.TaskEstimates) -> events.TaskClaims:
        lies = np.isin(event.application, self._liars)
        return events.TaskClaims(
            application=event.application,
            key=event.key,
            duration_ms=np.where(lies, LIE_MS, event.duration_ms),
            deviation_ms=np.where(lies, -1, event.deviation_ms),
            tasks=np.where(lies, 0, event.tasks).astype(np.int32),
        )


def scenario(queues: int, seed: int, lie: Lie) -> tuple[Scenario, frozenset[int]]:
    """Return a cluster with jobs, and which of them are the liar's, in the order of their coming."""
    random = np.random.default_rng(seed)
    many = LIARS + OTHERS
    liars = frozenset(int(at) for at in random.choice(many, LIARS, replace=False))
    comes_s = np.cumsum(random.exponential(EVERY_S, many))
    jobs = []
    for at in range(many):
        tasks = TASKS[1] if at in liars else int(random.integers(*TASKS))
        stage = {"tasks": tasks, "duration_s": DURATION_S, "demand": SLOT}
        queue = "b" if queues > 1 and at in liars else "a"
        user = "liar" if at in liars else "other"
        job = {"arrival_s": float(comes_s[at]), "user": user, "queue": queue, "stages": [stage]}
        jobs.append(job | {"framework": FRAMEWORKS[lie]})
    part = 100 / queues
    document = {
        "cluster": {"nodes": [{"count": NODES, "resources": {name: n * SLOTS for name, n in SLOT.items()}}]},
        "queues": {name: {"capacity": part, "maximum_am_resource_percent": 100} for name in "ab"[:queues]},
        "workload": {"jobs": jobs},
        "decision": {"tick_ms": 1_000},
    }
    return Scenario.model_validate(document), liars


def run_liars(
    policies: Mapping[str, Settings],
    seeds: Sequence[int],
    progress: Callable[[str], None],
    *,
    lies: Sequence[Lie] = tuple(Lie),
    believed: bool = False,
) -> list[Liar]:
    """Simulate every policy within one queue and across two.

    Args:
        policies: settings by name
        seeds: of the draws of jobs
        progress: called with the step that begins
        lies: what is lied about, each by itself
        believed: whether claims are taken at their word
    """
    found = []
    for name, settings in policies.items():
        # Whatever history a policy would have, applications report about themselves here.
        chosen = replace(settings, plans=settings.plans.model_copy(update={"schedules": 0}))
        if believed:
            chosen = replace(chosen, plans=chosen.plans.model_copy(update={"claims_part": 0.0}))
        for lie, queues in product(lies, (1, 2)):
            progress(f"{name}, lies about {lie}, {counted(queues, 'queue')}")
            times = np.array([[_run(chosen, queues, seed, lie, lied) for lied in (False, True)] for seed in seeds])
            (true_s, others_s), (false_s, slowed_s) = times.mean(axis=0).tolist()
            gain, others = round(true_s / false_s, 2), round(slowed_s / others_s, 2)
            found.append(Liar(name, lie, queues, round(true_s, 1), round(false_s, 1), gain, others))
    return found


def report(found: Sequence[Liar]) -> list[dict[str, Any]]:
    """Return the results for JSON."""
    return [asdict(one) for one in found]


def _run(settings: Settings, queues: int, seed: int, lie: Lie, lied: bool) -> tuple[float, float]:
    """Return the mean completion times of the liar's jobs and of all others, seconds."""
    read, liars = scenario(queues, seed, lie)
    duration_ms = np.full(LIARS + OTHERS, round(1000 * DURATION_S))
    known = JobHints(duration_ms, np.full(LIARS + OTHERS, -1))
    simulation = Simulation(read, jobs_of(read, Path(), seed), settings, seed, check=False, hints=known)
    simulation.engine = _Deceived(settings, lie, liars if lied else frozenset())
    took_s = completion_s(simulation.run())
    his = np.isin(np.arange(len(took_s)), sorted(liars))
    return float(took_s[his].mean()), float(took_s[~his].mean())

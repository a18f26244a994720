"""One run: the engine of the live system and the simulated RM, tick by tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final

from treadle.config.needs import unheard
from treadle.config.parts import TASK_ESTIMATES
from treadle.config.settings import Settings
from treadle.dag.dag import Dag
from treadle.engine import Engine
from treadle.errors import UserError
from treadle.events import Fate
from treadle.planner.online import PlanSource
from treadle.policy.failed import insist
from treadle.policy.stopwatch import PartTimes, Stopwatch
from treadle.simulator.build import Built, build
from treadle.simulator.cluster import state as tables
from treadle.simulator.engine_figures import EngineFigures
from treadle.simulator.feed import Told
from treadle.simulator.invariants import Invariants
from treadle.simulator.jobs import jobs_of
from treadle.simulator.measure import Measurements
from treadle.simulator.plans import plans_of
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import Decision, Scenario
from treadle.simulator.situation import Situation
from treadle.workload.job import Workload

STALLED_MS: Final = 3_600_000
"""With asks that nothing serves and nothing to come a simulation ends after this long."""


@dataclass
class Profile:
    """CPU time by what it was spent on, in seconds: other programs on the machine do not count."""

    events: float = 0.0
    frames: float = 0.0
    apply: float = 0.0
    decide: float = 0.0
    commit: float = 0.0
    check: float = 0.0
    measure: float = 0.0

    def total(self) -> float:
        """Return the sum."""
        return float(sum(vars(self).values()))


@dataclass
class Run:
    """The result of a simulation."""

    built: Built
    measurements: Measurements
    end_ms: int
    decides: int
    proposals: int
    fates: dict[str, int]
    counts: dict[str, int]
    profile: Profile
    unfinished: int
    wall_s: float
    cpu_s: float
    warnings: tuple[str, ...]
    """What the engine said of the policy on this cluster, each once, in the order in which it came."""
    engines: tuple[EngineFigures, ...] = ()
    """Of each of several engines; empty if there was one."""
    stalled: bool = False
    """Did it end with jobs that wait for what nothing would ever give them?"""
    parts: PartTimes = field(default_factory=PartTimes)
    """What parts from files took by the clock: the one thing that depends on the machine, beside ``wall_s``."""


def warm_up(settings: Settings) -> None:
    """Compile all kernels of the simulator and the engine, or read them from their cache.

    Raises:
        PolicyFailedError: a part of the policy failed on a small cluster.
    """
    Engine(settings).warm_up()
    stage = {"tasks": 2, "duration_s": 1, "demand": {"memory-mb": 1024, "vcores": 1}}
    tiny = Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": 2, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "workload": {"jobs": [{"stages": [stage]}]},
        }
    )
    Simulation(tiny, jobs_of(tiny, Path(), 1), settings, 1, check=False).run()


Progress = Callable[[int, int, int], None]
"""Called with (finished jobs, all jobs, time in ms) now and then."""


class Simulation:
    """A scenario's jobs under one policy."""

    def __init__(
        self,
        scenario: Scenario,
        workload: Workload,
        settings: Settings,
        seed: int,
        *,
        check: bool = True,
        told: Told | None = None,
        believed: Sequence[Dag | None] | None = None,
        source: PlanSource | None = None,
        situation: Situation | None = None,
    ) -> None:
        """Make everything ready.

        Args:
            scenario: the cluster and what goes wrong
            workload: the jobs
            settings: the policy
            seed: of all chance that is not in the workload
            check: whether the invariants are checked at every step
            told: hints about each job's tasks that the engine gets when it arrives, in the workload's order
            believed: the DAG that each job is planned by, in the workload's order, and whose durations the estimate
                `hints` goes by; None for a job of which nothing is known. The jobs' own DAGs if left out
            source: makes the plans, for the same machines and settings; what it remembers is not planned again
            situation: what there is at the instant at which it begins; None: nothing, at time 0

        Raises:
            UserError: the scenario and the jobs do not go together.
        """
        if settings.engines:
            raise UserError("engines: are for `treadle simulate`; this simulation has one engine")
        self._scenario = scenario
        self.plans = plans_of(scenario, workload, settings.plans, believed, source)
        self.built = build(scenario, workload, seed, self.plans.orders() if self.plans is not None else None)
        self._stopwatch = Stopwatch(settings.limits.part_timeout_ms / 1000)
        self.engine = Engine(settings, watch=self._stopwatch)
        oracle = TASK_ESTIMATES in settings.policy.estimate.kind.traits.estimates
        slots = scenario.frameworks.spark_tasks_per_executor
        self._begin_ms = 0 if situation is None else situation.at_ms
        self.rm = SimulatedRM(
            self.built,
            rm_settings(scenario),
            oracle=oracle and told is None,
            slots=slots,
            told=told,
            plans=self.plans,
            situation=situation,
        )
        self._invariants = Invariants(self.built, settings) if check else None
        self.measurements = Measurements(self.built, scenario)
        self.profile = Profile()
        self.sequence = 0
        self._stalled = False
        self.proposals = 0
        self.fates: dict[int, int] = {}
        heard = oracle or told is not None
        self._warnings: dict[str, None] = {} if heard else dict.fromkeys(unheard(settings))

    def run(self, progress: Progress | None = None, after_step: Callable[[], None] | None = None) -> Run:
        """Run to the end: all jobs done, the time limit reached, or nothing that could ever happen.

        Args:
            progress: called now and then with the part that is done
            after_step: is called after each decision, and may look at ``rm``

        Raises:
            PolicyFailedError: a part of the policy failed, so that another one would go on.
        """
        began, began_cpu = time.perf_counter(), time.thread_time()
        decision = self._scenario.decision
        limit_ms = round(1000 * self._scenario.duration_limit_s)
        at, last_progress = self._begin_ms, self._begin_ms
        while True:
            busy = self.step(at)
            if busy:
                last_progress = at
            if after_step is not None:
                after_step()
            if progress is not None and self.sequence % 64 == 0:
                progress(self._finished(), len(self.built.workload.jobs), at)
            after = self._next(at, busy, decision)
            if self._finished() == len(self.built.workload.jobs):
                break  # nodes go on failing and coming back for nobody
            stalled = after - last_progress > STALLED_MS and self.rm.next_time() < 0
            if after < 0 or after > limit_ms or stalled:
                break
            at = after
        self._stopwatch.end()
        self.measurements.finish(self.rm)
        self._stalled = self._finished() < len(self.built.workload.jobs) and after <= limit_ms
        return self._result(time.perf_counter() - began, time.thread_time() - began_cpu)

    def step(self, at_ms: int) -> bool:
        """Let time go on to an instant and decide then; return whether anything was committed or turned down.

        Raises:
            PolicyFailedError: a part of the policy failed.
        """
        profile, decision = self.profile, self._scenario.decision
        marks = [time.thread_time()]
        self.rm.advance(at_ms)
        marks.append(time.thread_time())
        frame = self.rm.frame()
        marks.append(time.thread_time())
        self.engine.apply(frame)
        marks.append(time.thread_time())
        self.sequence += 1
        self._stopwatch.begin(at_ms)
        made = self.engine.decide(self.built.start_ms + at_ms, decision.limit, sequence=self.sequence)
        marks.append(time.thread_time())
        insist(self.engine.failure, f"at {at_ms / 1000:g} s of simulated time")
        self._warnings.update(dict.fromkeys(self.engine.warnings()))
        cost_ms = ceil((decision.cost_us + decision.cost_per_proposal_us * len(made)) / 1000.0)
        if cost_ms:
            if self._invariants is not None:
                self._invariants.told(self.rm.state)
            self.rm.advance(at_ms + cost_ms)
        if self._invariants is not None:
            self._invariants.before(self.rm.state, made)
        fates = self.rm.commit(made, self.sequence)
        self._count(fates.fate.tolist())
        marks.append(time.thread_time())
        if self._invariants is not None:
            self._invariants.after(self.rm.state, made, fates, decision.limit)
        marks.append(time.thread_time())
        self.measurements.sample(self.rm)
        marks.append(time.thread_time())
        for name, begin, end in zip(vars(profile), marks, marks[1:], strict=False):
            setattr(profile, name, getattr(profile, name) + end - begin)
        return len(made) > 0

    def _count(self, fates: list[int]) -> None:
        self.proposals += len(fates)
        for fate in fates:
            self.fates[fate] = self.fates.get(fate, 0) + 1

    def _next(self, at: int, busy: bool, decision: Decision) -> int:
        """Return when to decide next, or -1 if there is nothing left to decide."""
        # The tick after this one, or, if the decision took longer than a tick, the first one after that.
        tick_ms = decision.tick_ms
        soon = (max(self.rm.now_ms, at) // tick_ms + 1) * tick_ms
        if busy:
            return soon
        coming = self.rm.next_time()
        waiting = int(self.rm.state.clock[tables.PENDING]) > 0
        if coming < 0:
            return soon + decision.idle_ms - tick_ms if waiting else -1
        due = max(-(-coming // tick_ms) * tick_ms, soon)
        return min(due, max(soon, at + decision.idle_ms)) if waiting else due

    def _finished(self) -> int:
        return int(self.rm.state.clock[tables.FINISHED])

    def _result(self, wall_s: float, cpu_s: float) -> Run:
        return Run(
            built=self.built,
            measurements=self.measurements,
            end_ms=self.rm.now_ms,
            decides=self.sequence,
            proposals=self.proposals,
            fates=fates_by_name(self.fates),
            counts=counts_of(self.rm),
            profile=self.profile,
            unfinished=len(self.built.workload.jobs) - self._finished(),
            wall_s=wall_s,
            cpu_s=cpu_s,
            warnings=tuple(self._warnings),
            stalled=self._stalled,
            parts=self._stopwatch.times,
        )


def fates_by_name(fates: dict[int, int]) -> dict[str, int]:
    """Return how often each fate came, in the order of their numbers."""
    return {Fate(fate).name: count for fate, count in sorted(fates.items())}


def counts_of(rm: SimulatedRM) -> dict[str, int]:
    """Return what the RM has counted."""
    counts = {
        "tasks_done": tables.TASKS_DONE,
        "tasks_failed": tables.TASKS_FAILED,
        "tasks_killed": tables.TASKS_KILLED,
        "tasks_lost": tables.TASKS_LOST,
        "containers": tables.CONTAINERS_EVER,
        "containers_unused": tables.UNUSED,
        "events": tables.HANDLED,
    }
    return {name: int(rm.state.clock[place]) for name, place in counts.items()}


def rm_settings(scenario: Scenario) -> dict[str, str]:
    """Return the RM's settings as engines receive them."""
    return {
        "node-locality-delay": str(scenario.decision.node_locality_delay),
        "rack-locality-additional-delay": str(scenario.decision.rack_locality_additional_delay),
        "nm-heartbeat-ms": str(scenario.cluster.heartbeat_ms or 1000),
        "resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        "preemption-monitor": "false",
        "mode": "enforce",
    }

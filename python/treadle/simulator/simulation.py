"""A simulation run: the live system's engine and the simulated RM, tick by tick.

The loop advances in steps until all jobs are done or nothing can happen any more. Jobs that can never run are rejected:
one of their requests fits on no empty node, or exceeds its queue's maximum.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np

from treadle.compiled.array_types import I64
from treadle.config.part_files import in_simulation
from treadle.config.parts import TASK_ESTIMATES
from treadle.config.settings import Settings
from treadle.constraints import unread_tags
from treadle.engine import Engine
from treadle.errors import UserError, counted
from treadle.events import Event, Fate
from treadle.policy.user_parts import raise_if_failed
from treadle.policy.watchdog import PartTimes, Stopwatch
from treadle.processes import relaxed_gc
from treadle.simulator.build import Built, build
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.tables import RowKind
from treadle.simulator.feed import FollowedPlans, plans_of
from treadle.simulator.measure import EngineFigures, Invariants, Measurements
from treadle.simulator.resource_manager import SimulatedRM, Situation
from treadle.simulator.scenario import ScenarioModel, jobs_of, queue_warnings
from treadle.workload.job import Workload

STALLED_MS: Final = 3_600_000
"""A simulation with only unserved requests and no pending events ends after this time, in ms."""

PROGRESS_STEPS: Final = 64
"""Progress is reported once per this number of steps."""

Progress = Callable[[int, int, int], None]
"""Called with (finished jobs, all jobs, time in ms) at intervals."""


@dataclass
class Profile:
    """CPU time by component, in seconds; other programs on the machine do not count."""

    events: float = 0.0
    frames: float = 0.0
    apply: float = 0.0
    decide: float = 0.0
    commit: float = 0.0
    check: float = 0.0
    measure: float = 0.0


@dataclass
class SimulatedRun:
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
    """Warnings about the queues, then the engine's about the policy on this cluster, without duplicates."""
    engines: tuple[EngineFigures, ...] = ()
    """Figures of each of several engines; empty for one."""
    stalled: bool = False
    """Whether it ended with jobs that wait for unavailable resources."""

    @property
    def ended(self) -> str:
        """How it ended: done; limit, at ``duration_limit_s``; stalled."""
        return "done" if not self.unfinished else "stalled" if self.stalled else "limit"

    parts: PartTimes = field(default_factory=PartTimes)
    """Wall times of custom parts, which depend on the machine as ``wall_s`` does."""


class Loop(ABC):
    """A scenario on a simulated ResourceManager. A subclass adds its engine or engines and the actions of a step."""

    def __init__(self, scenario: ScenarioModel, built: Built, rm: SimulatedRM, begin_ms: int = 0) -> None:
        self._scenario = scenario
        self.built = built
        self.rm = rm
        self.measurements = Measurements(built, scenario)
        self.profile = Profile()
        self.sequence = 0
        """Number of decisions so far."""
        self.fates: Counter[int] = Counter()
        """Number of proposals by fate."""
        self._stopwatches: list[Stopwatch] = []
        """They time the custom parts of the engines."""
        self._begin_ms = begin_ms
        self._last_progress_ms = begin_ms
        """The latest step with progress of the jobs; updated by the subclass."""

    @abstractmethod
    def step(self, at_ms: int) -> None:
        """Advance to a time, and process all events that are due then.

        Raises:
            PolicyFailedError: a part of a policy failed.
        """

    @abstractmethod
    def _next(self, at_ms: int) -> int:
        """Return the time of the step after the one at ``at_ms``, or -1 if nothing can happen any more."""

    @abstractmethod
    def _warned(self) -> tuple[str, ...]:
        """Return the engines' warnings."""

    def _part_times(self) -> PartTimes:
        """Return the total times of custom parts of all engines, and the slowest cycle; called once, at the end."""
        for stopwatch in self._stopwatches:
            stopwatch.end()
        times = [stopwatch.times for stopwatch in self._stopwatches]
        slowest = max(times, key=lambda each: each.slowest_s)
        total_s, decides = sum(each.total_s for each in times), sum(each.decides for each in times)
        return replace(slowest, total_s=total_s, decides=decides, too_slow=sum(each.too_slow for each in times))

    def _engine_figures(self) -> tuple[EngineFigures, ...]:
        """Return the figures of each of several engines."""
        return ()

    def _may_stall(self) -> bool:
        """Return whether only the cluster can advance the jobs."""
        return True

    @relaxed_gc()  # a step leaves no garbage, and the search for it took a twentieth of its time
    def run(self, progress: Progress | None = None, after_step: Callable[[], None] | None = None) -> SimulatedRun:
        """Run to the end: all jobs done, the time limit reached, or no event possible.

        Args:
            progress: called at intervals with the progress
            after_step: called after each step, and may read ``rm``

        Raises:
            PolicyFailedError: a part of a policy failed, so that another policy would continue.
        """
        began, began_cpu = time.perf_counter(), time.thread_time()
        limit_ms = round(1000 * self._scenario.duration_limit_s)
        jobs, at, steps = len(self.built.workload.jobs), self._begin_ms, 0
        while True:
            self.step(at)
            steps += 1
            if after_step is not None:
                after_step()
            if progress is not None and steps % PROGRESS_STEPS == 0:
                progress(self._finished(), jobs, at)
            after = self._next(at)
            if self._finished() == jobs:
                break  # nodes continue to fail and return without any job
            idle = after - self._last_progress_ms > STALLED_MS and self.rm.next_time() < 0
            if after < 0 or after > limit_ms or (idle and self._may_stall()):
                break
            at = after
        if after > limit_ms and self._finished() < jobs:
            # Containers that run across the limit count up to it. A decision that took time may already be beyond.
            self.rm.advance(max(self.rm.now_ms, limit_ms))
        parts = self._part_times()
        self.measurements.finish(self.rm)
        unfinished = jobs - self._finished()
        return SimulatedRun(
            built=self.built,
            measurements=self.measurements,
            end_ms=self.rm.now_ms,
            decides=self.sequence,
            proposals=sum(self.fates.values()),
            fates={Fate(fate).name: count for fate, count in sorted(self.fates.items())},
            counts=_counts_of(self.rm),
            profile=self.profile,
            unfinished=unfinished,
            wall_s=time.perf_counter() - began,
            cpu_s=time.thread_time() - began_cpu,
            warnings=(
                *queue_warnings(self._scenario.queues),
                *unread_tags(job.tags for job in self.built.workload.jobs),
                *self._warned(),
            ),
            engines=self._engine_figures(),
            stalled=unfinished > 0 and after <= limit_ms,
            parts=parts,
        )

    def _finished(self) -> int:
        return int(self.rm.state.clock[tables.FINISHED])


def _counts_of(rm: SimulatedRM) -> dict[str, int]:
    """Return the RM's counters."""
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


def rm_settings(scenario: ScenarioModel) -> dict[str, str]:
    """Return the RM's settings as engines receive them."""
    return {
        "node-locality-delay": str(scenario.decision.node_locality_delay),
        "rack-locality-additional-delay": str(scenario.decision.rack_locality_additional_delay),
        "nm-heartbeat-ms": str(scenario.cluster.heartbeat_ms or 1000),
        "resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        "preemption-monitor": "false",
        "mode": "enforce",
    }


def warm_up(settings: Settings) -> None:
    """Compile all kernels of the simulator and of the engines with these settings, or load them from their cache.

    Raises:
        PolicyFailedError: a part of a policy failed on a small cluster.
    """
    stage = {"tasks": 2, "duration_s": 1, "demand": {"memory-mb": 1024, "vcores": 1}}
    tiny = ScenarioModel.model_validate(
        {
            "cluster": {"nodes": [{"count": 2, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "workload": {"jobs": [{"stages": [stage]}]},
        }
    )
    for each in settings.entries.values() or (settings,):
        Engine(each).warm_up()
        Simulation(tiny, jobs_of(tiny, Path(), 1), each, 1, check=False).run()


class Simulation(Loop):
    """A scenario's jobs under one policy."""

    def __init__(
        self,
        scenario: ScenarioModel,
        workload: Workload,
        settings: Settings,
        seed: int,
        *,
        check: bool = True,
        hinted: bool = False,
        plans: FollowedPlans | None = None,
        situation: Situation | None = None,
    ) -> None:
        """Prepare the simulation.

        Args:
            scenario: the cluster and its failures
            workload: the jobs
            settings: the policy
            seed: seed of all random draws outside the workload
            check: whether the invariants are checked at every step
            hinted: whether a subclass adds hints about tasks to frames; else policies that use hints get the true
                durations
            plans: the jobs' plans; None: by the jobs' own DAGs, if a part uses plans
            situation: the state at the start; None: empty, at time 0

        Raises:
            UserError: the scenario and the jobs do not fit together.
        """
        if settings.engines:
            raise UserError("engines: are for `treadle simulate`; this simulation has one engine")
        self.plans = plans_of(scenario, workload, settings) if plans is None else plans
        built = build(scenario, workload, seed, self.plans.orders() if self.plans is not None else None)
        self._stopwatch = Stopwatch(settings.limits.part_timeout_ms / 1000)
        self.engine = Engine(settings, watch=self._stopwatch)
        oracle = TASK_ESTIMATES in settings.policy.estimate.kind.traits.estimates
        slots = scenario.frameworks.spark_tasks_per_executor
        rm = SimulatedRM(
            built,
            rm_settings(scenario),
            oracle=oracle and not hinted,
            slots=slots,
            plans=self.plans,
            situation=situation,
        )
        super().__init__(scenario, built, rm, begin_ms=0 if situation is None else situation.at_ms)
        self._stopwatches.append(self._stopwatch)
        self._invariants = Invariants(built, settings) if check else None
        self._busy = False
        """Whether the last decision proposed anything."""
        self._warnings = dict.fromkeys(in_simulation(settings, hinted=oracle or hinted))

    def frame(self) -> list[Event]:
        """Return the events that the engine has not received yet."""
        return self.rm.frame()

    def step(self, at_ms: int) -> None:
        """Advance to a time and decide then.

        Raises:
            PolicyFailedError: a part of the policy failed.
        """
        profile, decision = self.profile, self._scenario.decision
        marks = [time.thread_time()]
        self.rm.advance(at_ms)
        marks.append(time.thread_time())
        frame = self.frame()
        marks.append(time.thread_time())
        self.engine.apply(frame)
        marks.append(time.thread_time())
        self.sequence += 1
        self._stopwatch.begin(at_ms)
        made = self.engine.decide(self.built.start_ms + at_ms, decision.limit, sequence=self.sequence)
        marks.append(time.thread_time())
        raise_if_failed(self.engine.failure, f"at {at_ms / 1000:g} s of simulated time")
        self._warnings.update(dict.fromkeys(self.engine.warnings()))
        cost_ms = ceil((decision.cost_us + decision.cost_per_proposal_us * len(made)) / 1000.0)
        if cost_ms:
            if self._invariants is not None:
                self._invariants.note_received(self.rm.state)
            self.rm.advance(at_ms + cost_ms)
        if self._invariants is not None:
            self._invariants.before(self.rm.state)
        fates = self.rm.commit(made, self.sequence)
        self.fates.update(fates.fate.tolist())
        marks.append(time.thread_time())
        if self._invariants is not None:
            self._invariants.after(self.rm.state, made, fates, decision.limit)
        marks.append(time.thread_time())
        self.measurements.sample(self.rm)
        marks.append(time.thread_time())
        for name, begin, end in zip(vars(profile), marks, marks[1:], strict=False):
            setattr(profile, name, getattr(profile, name) + end - begin)
        self._busy = len(made) > 0
        if self._busy:
            self._last_progress_ms = at_ms

    def _next(self, at_ms: int) -> int:
        """Return the time of the next decision, or -1 if there is none."""
        # The next tick, or, if the decision took longer than a tick, the first one after it.
        decision = self._scenario.decision
        tick_ms = decision.tick_ms
        soon = (max(self.rm.now_ms, at_ms) // tick_ms + 1) * tick_ms
        if self._busy:
            return soon
        coming = self.rm.next_time()
        waiting = int(self.rm.state.clock[tables.PENDING]) > 0
        if coming < 0:
            return soon + decision.idle_ms - tick_ms if waiting else -1
        due = max(-(-coming // tick_ms) * tick_ms, soon)
        return min(due, max(soon, at_ms + decision.idle_ms)) if waiting else due

    def _warned(self) -> tuple[str, ...]:
        return tuple(self._warnings)


SHOWN_MAX: Final = 5
WHAT: Final = {RowKind.MASTER: "its application master", RowKind.EXECUTORS: "an executor"}


def check_possible(built: Built) -> None:
    """Check that each job can run on this cluster.

    Raises:
        UserError: some cannot; names the first few with reasons.
    """
    reasons = impossible_jobs(built)
    if reasons:
        more = len(reasons) - SHOWN_MAX
        lines = [*reasons[:SHOWN_MAX], *([f"... and {more} more"] if more > 0 else [])]
        raise UserError(
            f"{counted(len(reasons), 'job')} of {len(built.workload.jobs)} can never run:\n  "
            + "\n  ".join(lines)
            + "\nLet them ask for less, add larger nodes, raise maximum_capacity; or use --allow-impossible"
        )


def impossible_jobs(built: Built) -> list[str]:
    """Return the reason for each job that can never run, in order of arrival."""
    state = built.state
    counts = (state.counted == 1).astype(bool)
    asks = np.flatnonzero(state.rows["kind"] != RowKind.INSIDE)
    wanted: I64 = state.capability[asks]
    shapes, shape_of = np.unique(wanted, axis=0, return_inverse=True) if len(wanted) else (wanted, np.zeros(0, int))
    nodes = np.unique(state.node_total, axis=0)
    fits = np.array([bool((shape[counts] <= nodes[:, counts]).all(axis=1).any()) for shape in shapes], bool)
    queues = state.apps["queue"][state.rows["app"][asks]]
    over_queue = (wanted[:, counts] > state.queue_maximum[queues][:, counts]).any(axis=1)
    too_large = ~fits[shape_of.reshape(-1)] if len(shapes) else np.zeros(0, bool)
    reasons: dict[int, str] = {}
    for at in np.flatnonzero(too_large | over_queue).tolist():
        app = int(state.rows["app"][asks[at]])
        if app not in reasons:
            reasons[app] = _why(built, int(asks[at]), app, too_large=bool(too_large[at]))
    return [reasons[app] for app in sorted(reasons)]


def _why(built: Built, row: int, app: int, *, too_large: bool) -> str:
    state, job = built.state, built.workload.jobs[app]
    path = built.tree.paths[int(state.apps["queue"][app])].removeprefix("root.")
    what = WHAT.get(RowKind(int(state.rows["kind"][row])), "a task")
    amounts_text = _amounts(built, state.capability[row])
    if too_large:
        most = _amounts(built, state.node_total.max(axis=0))
        return f"{job.id} (queue {path}): {what} asks for {amounts_text}; no node has that, the most of each are {most}"
    most = _amounts(built, state.queue_maximum[int(state.apps["queue"][app])])
    return f"{job.id} (queue {path}): {what} asks for {amounts_text}; the queue may have at most {most}"


def _amounts(built: Built, amounts: I64) -> str:
    """Return amounts of the counted resources as text, in the simulation's whole units."""
    pairs = zip(built.resources, amounts.tolist(), built.state.counted.tolist(), strict=True)
    return ", ".join(f"{name} {amount}" for name, amount, counts in pairs if counts)


def unfinished_warning(run: SimulatedRun) -> str:
    """Return a warning about unfinished jobs; empty if there are none."""
    if not run.unfinished:
        return ""
    jobs = counted(run.unfinished, "job")
    if run.stalled:
        return (
            f"{jobs} of {len(run.built.workload.jobs)} wait forever; look for a gate that never opens, "
            "a queue without capacity or an ask that fits nowhere; or use --allow-impossible"
        )
    return f"{jobs} of {len(run.built.workload.jobs)} had not ended by duration_limit_s"

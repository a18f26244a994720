"""The loop of every simulation: step by step through time until all jobs are done or nothing can happen any more."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from treadle.constraints.tags import unread_tags
from treadle.events import Fate
from treadle.policy.stopwatch import PartTimes
from treadle.process_limits import garbage_sought_rarely
from treadle.simulator.build import Built
from treadle.simulator.cluster import state as tables
from treadle.simulator.engine_figures import EngineFigures
from treadle.simulator.measure import Measurements
from treadle.simulator.queue_warnings import queue_warnings
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import Scenario

STALLED_MS: Final = 3_600_000
"""With asks that nothing serves and nothing to come a simulation ends after this long."""

PROGRESS_STEPS: Final = 64
"""Progress is reported once in this many steps."""

Progress = Callable[[int, int, int], None]
"""Called with (finished jobs, all jobs, time in ms) now and then."""


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
    """What is to be known of the queues, then what the engine said of the policy on this cluster, each once."""
    engines: tuple[EngineFigures, ...] = ()
    """Of each of several engines; empty if there was one."""
    stalled: bool = False
    """Did it end with jobs that wait for what nothing would ever give them?"""

    @property
    def ended(self) -> str:
        """How it ended: done; limit, at ``duration_limit_s``; stalled."""
        return "done" if not self.unfinished else "stalled" if self.stalled else "limit"

    parts: PartTimes = field(default_factory=PartTimes)
    """What parts from files took by the clock: the one thing that depends on the machine, beside ``wall_s``."""


class Loop(ABC):
    """A scenario on a simulated ResourceManager. A subclass adds its engine or engines: what happens at a step."""

    def __init__(self, scenario: Scenario, built: Built, rm: SimulatedRM, begin_ms: int = 0) -> None:
        self._scenario = scenario
        self.built = built
        self.rm = rm
        self.measurements = Measurements(built, scenario)
        self.profile = Profile()
        self.sequence = 0
        """Decisions so far."""
        self.fates: dict[int, int] = {}
        """Proposals by their fates."""
        self._begin_ms = begin_ms
        self._last_progress_ms = begin_ms
        """The latest step that brought the jobs forward; a subclass keeps it up to date."""

    @abstractmethod
    def step(self, at_ms: int) -> None:
        """Let time go on to an instant, and all happen that is due then.

        Raises:
            PolicyFailedError: a part of a policy failed.
        """

    @abstractmethod
    def _next(self, at_ms: int) -> int:
        """Return the time of the step after the one at ``at_ms``, or -1 if nothing can happen any more."""

    @abstractmethod
    def _warned(self) -> tuple[str, ...]:
        """Return the engines' warnings."""

    @abstractmethod
    def _part_times(self) -> PartTimes:
        """Return what parts from files took; called once, at the end."""

    def _engine_figures(self) -> tuple[EngineFigures, ...]:
        """Return the figures of each of several engines."""
        return ()

    def _may_stall(self) -> bool:
        """Return whether nothing but the cluster can bring the jobs forward."""
        return True

    def run(self, progress: Progress | None = None, after_step: Callable[[], None] | None = None) -> Run:
        """Run to the end: all jobs done, the time limit reached, or nothing that could ever happen.

        Args:
            progress: called now and then with the part that is done
            after_step: is called after each step, and may look at ``rm``

        Raises:
            PolicyFailedError: a part of a policy failed, so that another one would go on.
        """
        with garbage_sought_rarely():  # a step leaves none, and a twentieth of its time went into looking for it
            return self._run(progress, after_step)

    def _run(self, progress: Progress | None, after_step: Callable[[], None] | None) -> Run:
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
                break  # nodes go on failing and coming back for nobody
            idle = after - self._last_progress_ms > STALLED_MS and self.rm.next_time() < 0
            if after < 0 or after > limit_ms or (idle and self._may_stall()):
                break
            at = after
        if after > limit_ms and self._finished() < jobs:
            # What runs across the limit is used up to it. A decision that took time may have gone beyond already.
            self.rm.advance(max(self.rm.now_ms, limit_ms))
        parts = self._part_times()
        self.measurements.finish(self.rm)
        unfinished = jobs - self._finished()
        return Run(
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

    def _count_fates(self, fates: Iterable[int]) -> None:
        for fate in fates:
            self.fates[fate] = self.fates.get(fate, 0) + 1


def _counts_of(rm: SimulatedRM) -> dict[str, int]:
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

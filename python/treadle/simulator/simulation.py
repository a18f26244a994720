"""One run: the engine of the live system and the simulated RM, tick by tick."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from treadle.config.part_files import in_simulation
from treadle.config.parts import TASK_ESTIMATES
from treadle.config.settings import Settings
from treadle.dag.dag import Dag
from treadle.engine import Engine
from treadle.errors import UserError
from treadle.planner.online import PlanSource
from treadle.policy.failed import insist
from treadle.policy.stopwatch import PartTimes, Stopwatch
from treadle.simulator.build import build
from treadle.simulator.cluster import state as tables
from treadle.simulator.feed import JobHints
from treadle.simulator.invariants import Invariants
from treadle.simulator.jobs import jobs_of
from treadle.simulator.loop import Loop, rm_settings
from treadle.simulator.plans import plans_of
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import Scenario
from treadle.simulator.situation import Situation
from treadle.workload.job import Workload


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


class Simulation(Loop):
    """A scenario's jobs under one policy."""

    def __init__(
        self,
        scenario: Scenario,
        workload: Workload,
        settings: Settings,
        seed: int,
        *,
        check: bool = True,
        hints: JobHints | None = None,
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
            hints: about each job's tasks that the engine gets when it arrives, in the workload's order
            believed: the DAG that each job is planned by, in the workload's order, and whose durations the estimate
                `hints` goes by; None for a job of which nothing is known. The jobs' own DAGs if left out
            source: makes the plans, for the same machines and settings; what it remembers is not planned again
            situation: what there is at the instant at which it begins; None: nothing, at time 0

        Raises:
            UserError: the scenario and the jobs do not go together.
        """
        if settings.engines:
            raise UserError("engines: are for `treadle simulate`; this simulation has one engine")
        self.plans = plans_of(scenario, workload, settings, believed, source)
        built = build(scenario, workload, seed, self.plans.orders() if self.plans is not None else None)
        self._stopwatch = Stopwatch(settings.limits.part_timeout_ms / 1000)
        self.engine = Engine(settings, watch=self._stopwatch)
        oracle = TASK_ESTIMATES in settings.policy.estimate.kind.traits.estimates
        slots = scenario.frameworks.spark_tasks_per_executor
        rm = SimulatedRM(
            built,
            rm_settings(scenario),
            oracle=oracle and hints is None,
            slots=slots,
            hints=hints,
            plans=self.plans,
            situation=situation,
        )
        super().__init__(scenario, built, rm, begin_ms=0 if situation is None else situation.at_ms)
        self._invariants = Invariants(built, settings) if check else None
        self._busy = False
        """Whether the last decision proposed anything."""
        self._warnings = dict.fromkeys(in_simulation(settings, hinted=oracle or hints is not None))

    def step(self, at_ms: int) -> None:
        """Let time go on to an instant and decide then.

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
                self._invariants.note_received(self.rm.state)
            self.rm.advance(at_ms + cost_ms)
        if self._invariants is not None:
            self._invariants.before(self.rm.state, made)
        fates = self.rm.commit(made, self.sequence)
        self._count_fates(fates.fate.tolist())
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
        """Return when to decide next, or -1 if there is nothing left to decide."""
        # The tick after this one, or, if the decision took longer than a tick, the first one after that.
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

    def _part_times(self) -> PartTimes:
        self._stopwatch.end()
        return self._stopwatch.times

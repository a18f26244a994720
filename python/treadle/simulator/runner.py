"""One of several engines in a simulation: its events, its decisions and how long they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from treadle.compiled.array_types import I64
from treadle.config.engines import RosterEngine
from treadle.config.part_files import in_simulation
from treadle.config.parts import TASK_ESTIMATES
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.policy.failed import insist
from treadle.policy.stopwatch import PartTimes, Stopwatch
from treadle.proposals import Proposals
from treadle.simulator.attempts import Queue
from treadle.simulator.engine_figures import EngineCounts
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import Decision, EngineDecision


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a decision is about for one application."""

    asked: int
    """Containers, when the decision began."""
    took_ms: int
    turn: int


@dataclass(frozen=True, slots=True)
class Deciding:
    """A decision from its base frame to its commit."""

    made: Proposals
    sequence: int
    base: I64
    attempts: Mapping[int, Attempt]
    took_ms: int
    full: bool
    """Whether the answer had no room for more."""


class Runner:
    """An engine, its feed and its queue."""

    def __init__(
        self,
        rm: SimulatedRM,
        place: int,
        row: RosterEngine,
        settings: Settings,
        costs: EngineDecision,
        decision: Decision,
    ) -> None:
        """Take a place in the roster, which is the engine's number at the simulated RM."""
        self.place, self.row, self.settings = place, row, settings
        self.costs, self._decision = costs, decision
        self.counts = EngineCounts()
        self.queue = Queue()
        self.deciding: Deciding | None = None
        self.alive = True
        self.next_start_ms = 0
        self.generation = 0
        """Changes when it dies: what it decided before is nobody's answer."""
        self._oracle = TASK_ESTIMATES in settings.policy.estimate.kind.traits.estimates
        self.warnings = dict.fromkeys(in_simulation(settings, hinted=self._oracle))
        self._sequence = 0
        self._open: set[int] = set()
        """The applications of which it receives the asks."""
        self._stopwatch = Stopwatch(settings.limits.part_timeout_ms / 1000)
        self.feed = rm.join_in_part(oracle=self._oracle)
        self.begin()

    def begin(self) -> None:
        """Begin with an empty model and a snapshot; also after a death."""
        self.feed.begin_again()
        self.engine = Engine(self.settings, watch=self._stopwatch)

    def part_times(self) -> PartTimes:
        """Return what its parts from files took so far."""
        self._stopwatch.end()
        return self._stopwatch.times

    @property
    def max_ms(self) -> int:
        """How long it may decide before it counts as dead."""
        return round(1000 * self.row.entry.decision_max_s)

    def serve(self, application: int) -> None:
        """Own an application from now on, without its asks until it decides on them."""
        self._open.discard(application)
        self.feed.hold(application, True)

    def lose(self, application: int) -> None:
        """Own an application no more."""
        self._open.discard(application)
        self.feed.lose(application)

    def decide(
        self, rm: SimulatedRM, asked: Mapping[int, int], turns: Mapping[int, int], base: I64, at_ms: int
    ) -> Deciding:
        """Look at the cluster and decide on applications, given how many containers each asks for.

        Raises:
            PolicyFailedError: a part of the policy failed.
        """
        for app in self._open:
            self.feed.hold(app, True)
        self._open = set(asked)
        for app in asked:
            self.feed.hold(app, False)
        self.engine.apply(rm.frame(self.place))
        self._sequence += 1
        limit = self._decision.limit
        self._stopwatch.begin(at_ms)
        made = self.engine.decide(rm.start_ms + at_ms, limit, sequence=self._sequence)
        insist(self.engine.failure, f"{self.row.name} at {at_ms / 1000:g} s of simulated time")
        self.warnings.update(dict.fromkeys(self.engine.warnings()))
        costs, attempts = self.costs, {}
        for app, tasks in asked.items():
            took_ms = ceil(1000 * (costs.t_job_s + costs.t_task_s * tasks) - 1e-6)
            attempts[app] = Attempt(tasks, took_ms, turns[app])
        answer_us = self._decision.cost_us + self._decision.cost_per_proposal_us * len(made)
        took_ms = sum(attempt.took_ms for attempt in attempts.values()) + ceil(answer_us / 1000.0)
        full = len(made) >= min(limit, self.settings.limits.proposals_max)
        return Deciding(made, self._sequence, base, attempts, took_ms, full)

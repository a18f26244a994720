"""A simulation with several engines: each decides at its own pace and commits optimistically.

Omega (EuroSys 2013), section 3.4. An engine takes applications from its queue, reads the current cluster, and answers
after its decision time; the others continue meanwhile. The simulated RM commits an answer depending on the owners of
applications and on changes since the engine's read.

An application waits in its owner's queue from its first request; after the decision it is done, or joins the end of the
queue again when its backoff after conflicts is over.
"""

from __future__ import annotations

import heapq
import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, I64, U8
from treadle.config.part_files import in_simulation
from treadle.config.parts import TASK_ESTIMATES
from treadle.config.reader import parse_engines
from treadle.config.settings import GANG_MAX, STEADY_MS, RosterEngine, Settings, lost_queues
from treadle.constraints import gang_of
from treadle.engine import Engine
from treadle.errors import UserError
from treadle.events import Fate, Fates, Proposals
from treadle.policy.user_parts import raise_if_failed
from treadle.policy.watchdog import Stopwatch
from treadle.sidecar.roster import Asking, Move, Roster
from treadle.simulator.build import Built, build
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.advance import OVER_CLAIM, TO_JUDGE, commit_transactions
from treadle.simulator.cluster.tables import AppState, SimulationParameters, State
from treadle.simulator.feed import by_table, changed
from treadle.simulator.measure import EngineCounts, EngineFigures, InvariantError, Invariants
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import Decision, EngineDecision, ScenarioEngine, ScenarioModel
from treadle.simulator.simulation import Loop, rm_settings
from treadle.workload.job import Workload

CONFLICTS: Final = np.array([Fate.CHANGED, Fate.NODE_FULL, Fate.NODE_STALE, Fate.UNKNOWN_NODE, Fate.QUEUE_MAXIMUM])
"""Fates that result from changes after the engine's read."""

UNBOUNDED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one application's transaction."""

    placed: int
    conflict: bool
    not_owner: bool = False
    over_claim: bool = False
    too_large: bool = False


class Transactions:
    """Commits by engine and node, as recorded by the RM."""

    def __init__(self, rm: SimulatedRM, built: Built, roster: Roster, *, check: bool) -> None:
        self._rm, self._total, self._roster, self._check = rm, built.total, roster, check
        self._gangs = [gang_of(job.tags) for job in built.workload.jobs]
        self._raised: I64 = np.zeros(len(built.node_names), np.int64)
        """The sequence number of each node: number of commits on it."""
        self._own: I64 = np.zeros((len(roster.engines), len(built.node_names)), np.int64)

    def base(self, engine: int) -> I64:
        """Return for each node the number of commits by other engines than this one."""
        raised: I64 = self._raised - self._own[engine]
        return raised

    def commit(self, engine: int, deciding: Deciding) -> tuple[Fates, dict[int, Verdict]]:
        """Commit the valid part of an engine's answer.

        Returns:
            the fates in the answer's order, and the outcome of each attempt
        """
        row, made, base, attempts = self._roster.engines[engine], deciding.made, deciding.base, deciding.attempts
        order = np.argsort(made.application, kind="stable")
        rows = (made.application[order], made.key[order], made.node[order])
        apps, first = np.unique(rows[0], return_index=True)
        bounds: I32 = np.append(first, len(made)).astype(np.int32)
        sizes = np.diff(bounds)
        needs = [self._needed(row, app, attempts[app].asked if app in attempts else 0) for app in apps.tolist()]
        whole = np.array([need > 0 for need in needs], np.uint8)
        fates = np.full(len(made), TO_JUDGE, np.uint8)
        since: U8 = (self.base(engine)[rows[2]] != base[rows[2]]).astype(np.uint8)
        if row.entry.conflicts == "coarse":
            fates[since == 1] = Fate.CHANGED
        too_large = {}
        for at, app in enumerate(apps.tolist()):
            own = slice(bounds[at], bounds[at + 1])
            if self._roster.owner(app) != row.name:
                fates[own] = Fate.NOT_OWNER
            elif whole[at] and (sizes[at] < needs[at] or sizes[at] > GANG_MAX):
                fates[own] = Fate.TRANSACTION
                too_large[app] = max(int(sizes[at]), needs[at]) > GANG_MAX
        room = self._room(row)

        def committer(state: State, parameters: SimulationParameters, codes: U8, numbers: I64) -> None:
            in_order = np.zeros(len(made), np.int64)
            commit_transactions(state, parameters, rows, since, bounds, whole, room, fates, in_order)
            codes[order] = np.where(fates == OVER_CLAIM, Fate.QUEUE_MAXIMUM, fates)
            numbers[order] = in_order

        reported = self._rm.commit(made, deciding.sequence, engine, committer)
        placed = fates == Fate.COMMITTED
        np.add.at(self._raised, rows[2][placed], 1)
        np.add.at(self._own[engine], rows[2][placed], 1)
        if self._check:
            self._must_hold(row, apps, bounds, whole, placed)
        verdicts = dict.fromkeys(attempts, Verdict(0, conflict=False))
        for at, app in enumerate(apps.tolist()):
            own_fates = fates[bounds[at] : bounds[at + 1]]
            verdicts[app] = Verdict(
                int(np.count_nonzero(own_fates == Fate.COMMITTED)),
                bool(np.isin(own_fates, CONFLICTS).any()),
                bool(own_fates[0] == Fate.NOT_OWNER),
                bool((own_fates == OVER_CLAIM).any()),
                too_large.get(app, False),
            )
        return reported, verdicts

    def _needed(self, row: RosterEngine, app: int, asked: int) -> int:
        """Return the minimum number of containers of an application's transaction; 0 if it need not be atomic."""
        state = self._rm.state.apps[app]
        if state["awaiting_am"]:
            return 0
        needed = asked if row.entry.transactions == "gang" else 0
        held = int(state["containers"]) - (state["master"] >= 0)
        return max(needed, self._gangs[app] - held)

    def _room(self, row: RosterEngine) -> I64:
        """Return the rest of an engine's limit of each resource."""
        if row.entry.claim >= 1.0:
            return np.full(len(self._total), UNBOUNDED, np.int64)
        room: I64 = np.floor(row.entry.claim * self._total + 1e-6).astype(np.int64) - self._used(row)
        return room

    def _used(self, row: RosterEngine) -> I64:
        used: I64 = self._rm.state.app_used[list(self._roster.owned_by(row.name))].sum(axis=0)
        return used

    def _must_hold(self, row: RosterEngine, apps: I32, bounds: I32, whole: U8, placed: np.ndarray) -> None:
        """Raise `InvariantError` if a commit violates a guarantee of several engines."""
        for at, app in enumerate(apps.tolist()):
            own = placed[bounds[at] : bounds[at + 1]]
            if own.any() and self._roster.owner(app) != row.name:
                raise InvariantError(f"{row.name} placed something for an application of {self._roster.owner(app)}")
            if whole[at] and own.any() and not own.all():
                raise InvariantError(f"a gang of application {app} was committed in part")
        if row.entry.claim < 1.0 and placed.any():
            counted = self._rm.state.counted == 1
            over = self._used(row)[counted] > np.floor(row.entry.claim * self._total[counted] + 1e-6)
            if over.any():
                raise InvariantError(f"{row.name} uses more than its claim")


@dataclass(slots=True)
class Waiting:
    """An active application."""

    asks: int = 0
    """Requested containers."""
    active: bool = False
    """Whether it is in its engine's queue, in a decision, or waits after one; else it has no requests or no engine."""
    turn: int = 0
    """Increases with each step, so that events of earlier steps are recognised as outdated."""
    asked_ms: int = -1
    """Time of its first request, in ms; -1: none, or an attempt was made since."""
    tried: bool = False
    attempts: int = 0
    """Attempts for the current requests."""
    conflicts: int = 0
    """Consecutive conflicts without a placement."""

    def enter(self, *, active: bool = True) -> int:
        """Begin the next step at its engine, or none; return the turn."""
        self.active = active
        self.turn += 1
        return self.turn


@dataclass(frozen=True, slots=True)
class Attempt:
    """One application's share of a decision."""

    asked: int
    """Requested containers at the start of the decision."""
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
    """An engine with its feed and queue."""

    def __init__(
        self,
        rm: SimulatedRM,
        place: int,
        row: RosterEngine,
        settings: Settings,
        costs: EngineDecision,
        decision: Decision,
    ) -> None:
        """Create an engine at a place of the roster, which is its number at the simulated RM."""
        self.place, self.row, self.settings = place, row, settings
        self.costs, self._decision = costs, decision
        self.counts = EngineCounts()
        self.queue: deque[tuple[int, int]] = deque()
        """(application, turn), longest wait first; entries of earlier turns are outdated."""
        self.deciding: Deciding | None = None
        self.alive = True
        self.next_start_ms = 0
        self.generation = 0
        """Increases when it dies, so that its earlier decisions are discarded."""
        self._oracle = TASK_ESTIMATES in settings.policy.estimate.kind.traits.estimates
        self.warnings = dict.fromkeys(in_simulation(settings, hinted=self._oracle))
        self._sequence = 0
        self._open: set[int] = set()
        """The applications whose requests it receives."""
        self.stopwatch = Stopwatch(settings.limits.part_timeout_ms / 1000)
        self.feed = rm.join_in_part(oracle=self._oracle)
        self.begin()

    def begin(self) -> None:
        """Start with an empty model and a snapshot; also after a death."""
        self.feed.begin_again()
        self.engine = Engine(self.settings, watch=self.stopwatch)

    def take(self, known: dict[int, Waiting]) -> Iterator[int]:
        """Take the waiting applications of one decision from the queue."""
        taken, most = 0, self.costs.jobs_max
        while self.queue and (taken < most or not most):
            application, turn = self.queue.popleft()
            waiting = known.get(application)
            if waiting is not None and waiting.turn == turn:
                taken += 1
                yield application

    def serve(self, application: int) -> None:
        """Own an application from now on, without its requests until a decision includes it."""
        self._open.discard(application)
        self.feed.hold(application, True)

    def lose(self, application: int) -> None:
        """Stop owning an application."""
        self._open.discard(application)
        self.feed.lose(application)

    def decide(self, rm: SimulatedRM, attempts: Mapping[int, Attempt], base: I64, at_ms: int) -> Deciding:
        """Read the cluster and decide on applications.

        Raises:
            PolicyFailedError: a part of the policy failed.
        """
        for app in self._open:
            self.feed.hold(app, True)
        self._open = set(attempts)
        for app in attempts:
            self.feed.hold(app, False)
        self.engine.apply(rm.frame(self.place))
        self._sequence += 1
        limit = self._decision.limit
        self.stopwatch.begin(at_ms)
        made = self.engine.decide(rm.start_ms + at_ms, limit, sequence=self._sequence)
        raise_if_failed(self.engine.failure, f"{self.row.name} at {at_ms / 1000:g} s of simulated time")
        self.warnings.update(dict.fromkeys(self.engine.warnings()))
        answer_us = self._decision.cost_us + self._decision.cost_per_proposal_us * len(made)
        took_ms = sum(attempt.took_ms for attempt in attempts.values()) + ceil(answer_us / 1000.0)
        full = len(made) >= min(limit, self.settings.limits.proposals_max)
        return Deciding(made, self._sequence, base, attempts, took_ms, full)


class Due(IntEnum):
    """Kinds of events, in the order in which they happen at one time."""

    DIES = 0
    OVERTIME = 1
    """A decision takes too long."""
    RETURNS = 2
    STEADY = 3
    COMMIT = 4
    RETRY = 5


class EnginesSimulation(Loop):
    """A scenario's jobs under the engines of a roster."""

    def __init__(
        self, scenario: ScenarioModel, workload: Workload, settings: Settings, seed: int, *, check: bool = True
    ) -> None:
        """Prepare the simulation; the arguments are those of `Simulation`, and ``settings`` have engines.

        Raises:
            UserError: the scenario, the jobs and the engines do not fit together.
        """
        _refuse(scenario, settings)
        built = build(scenario, workload, seed)
        slots = scenario.frameworks.spark_tasks_per_executor
        super().__init__(scenario, built, SimulatedRM(built, rm_settings(scenario), slots=slots))
        self.roster = Roster(settings.engines)
        self.transactions = Transactions(self.rm, self.built, self.roster, check=check)
        self.runners: dict[str, Runner] = {}
        self._agenda: list[tuple[int, int, int, int, str, int, int]] = []
        self._pushed = 0
        for place, row in enumerate(settings.engines):
            entry = scenario.engines.get(row.entry_name, ScenarioEngine())
            runner = Runner(self.rm, place, row, settings.for_engine(row.name), entry.decision, scenario.decision)
            self.runners[row.name] = runner
            self._stopwatches.append(runner.stopwatch)
            for outage in entry.outages:
                if outage.copy_number == row.copy + 1:
                    begin_ms = round(1000 * outage.at_s)
                    self._push(begin_ms, Due.DIES, runner)
                    self._push(begin_ms + max(round(1000 * outage.for_s), 1), Due.RETURNS, runner)
        self._lost = [
            f"{'.'.join(path)}: {text}" for path, text in lost_queues(settings.engines, self.built.tree.paths)
        ]
        self._version = 0
        """The version of the tables up to which changes are processed."""
        self._waiting: dict[int, Waiting] = {}
        self._invariants = Invariants(self.built, settings) if check else None

    def step(self, at_ms: int) -> None:
        """Advance to a time, and process all events that are due then.

        Raises:
            PolicyFailedError: a part of a policy failed.
        """
        self._advance(at_ms)
        if self._happen(at_ms):
            self._advance(at_ms)  # application masters with a heartbeat now receive it
        if at_ms % self._scenario.decision.tick_ms == 0:
            for runner in self.runners.values():
                if runner.alive and runner.deciding is None and at_ms >= runner.next_start_ms and runner.queue:
                    self._begin(runner, at_ms)
        began = time.thread_time()
        self.measurements.sample(self.rm)
        self.profile.measure += time.thread_time() - began

    def _advance(self, at_ms: int) -> None:
        began = time.thread_time()
        self.rm.advance(at_ms)
        self._poll_changes(at_ms)
        self.profile.events += time.thread_time() - began

    def _happen(self, at_ms: int) -> bool:
        """Process all due events; return whether there was a commit."""
        committed = False
        while self._agenda and self._agenda[0][0] <= at_ms:
            _, kind, _, _, name, subject, turn = heapq.heappop(self._agenda)
            if kind == Due.RETRY:
                waiting = self._waiting.get(subject)
                if waiting is not None and waiting.turn == turn:
                    self.runners[name].queue.append((subject, waiting.enter()))
                continue
            if kind == Due.STEADY:
                self._move(self.roster.settle(at_ms), at_ms)
                continue
            runner = self.runners[name]
            if kind == Due.DIES:
                runner.alive, runner.deciding = False, None
                runner.generation += 1
                self._move(self.roster.dies(name, at_ms), at_ms)
            elif kind == Due.RETURNS:
                runner.begin()
                self._return(runner, at_ms)
            elif subject == runner.generation and kind == Due.OVERTIME:
                self._move(self.roster.dies(name, at_ms), at_ms)
            elif subject == runner.generation and runner.deciding is not None:
                self._commit(runner, runner.deciding, at_ms)
                committed = True
        return committed

    def _push(self, at_ms: int, due: Due, runner: Runner, subject: int = 0, turn: int = 0) -> None:
        """Schedule an event; of simultaneous answers those with precedence come first.

        ``subject`` is the engine's generation, or with its ``turn`` an application.
        """
        self._pushed += 1
        first = -runner.row.entry.precedence if due == Due.COMMIT else 0
        then = runner.place if due == Due.COMMIT else self._pushed
        heapq.heappush(self._agenda, (at_ms, due, first, then, runner.row.name, subject, turn))

    # Who serves what

    def _poll_changes(self, at_ms: int) -> None:
        """Process new and ended applications and changed requests."""
        state = self.rm.state
        since, self._version = self._version, int(state.clock[tables.VERSION])
        if since == self._version:
            return
        _, apps, rows, _ = by_table(state, changed(state, since))
        state.clock[tables.READ] = self._version
        themselves = apps[state.apps["own_version"][apps] > since].tolist()
        for app in themselves:
            stands = state.apps["state"][app]
            if stands == AppState.FINISHED:
                self.roster.end(app)
                self._waiting.pop(app, None)
            elif stands in (AppState.STARTING, AppState.RUNNING) and app not in self._waiting:
                self._waiting[app] = Waiting(self._asks(app))
                owner = self.roster.begin(app, self._asking(app), at_ms)
                if owner is not None:
                    self.runners[owner].serve(app)
        for app in dict.fromkeys([*state.rows["app"][rows].tolist(), *themselves]):
            waiting = self._waiting.get(app)
            if waiting is not None:
                waiting.asks = self._asks(app)
                self._let_wait(app, waiting, at_ms)

    def _let_wait(self, app: int, waiting: Waiting, at_ms: int) -> None:
        """Add an application with requests to its owner's queue."""
        owner = self.roster.owner(app)
        if waiting.active or waiting.asks == 0 or owner is None:
            return
        if not waiting.tried and waiting.asked_ms < 0:
            waiting.asked_ms = at_ms
        self.runners[owner].queue.append((app, waiting.enter()))

    def _asks(self, app: int) -> int:
        state = self.rm.state
        first = int(state.apps["first_row"][app])
        return int(state.rows["count"][first : first + int(state.apps["rows"][app])].sum())

    def _asking(self, app: int) -> Asking:
        job, state = self.built.workload.jobs[app], self.rm.state
        path = self.built.tree.paths[int(state.apps["queue"][app])]
        tasks = self._asks(app) + int(state.apps["containers"][app])
        return Asking(app + 1, path, job.framework.value, job.user or "user", job.tags, tasks)

    def _move(self, moves: Iterable[Move], at_ms: int) -> None:
        """Change the owners of applications."""
        for move in moves:
            if move.before is not None:
                before = self.runners[move.before]
                before.lose(move.application)
                before.counts.moved += 1
            waiting = self._waiting[move.application]
            waiting.enter(active=False)
            waiting.conflicts = 0
            if move.after is not None:
                self.runners[move.after].serve(move.application)
                self._let_wait(move.application, waiting, at_ms)

    def _return(self, runner: Runner, at_ms: int) -> None:
        runner.alive = True
        self._move(self.roster.returns(runner.row.name, at_ms), at_ms)
        self._push(at_ms + STEADY_MS, Due.STEADY, runner)

    # Decisions

    def _begin(self, runner: Runner, at_ms: int) -> None:
        """Start an engine's decision on applications of its queue."""
        attempts, costs = {}, runner.costs
        for app in runner.take(self._waiting):
            waiting = self._waiting[app]
            if waiting.asks == 0:
                waiting.enter(active=False)
                continue
            if not waiting.tried:
                waiting.tried = True
                runner.counts.waits_ms.append(at_ms - waiting.asked_ms)
            runner.counts.retries += waiting.attempts > 0
            waiting.attempts += 1
            took_ms = ceil(1000 * (costs.t_job_s + costs.t_task_s * waiting.asks) - 1e-6)
            attempts[app] = Attempt(waiting.asks, took_ms, waiting.enter())
        if not attempts:
            return
        began = time.thread_time()
        deciding = runner.decide(self.rm, attempts, self.transactions.base(runner.place), at_ms)
        self.profile.decide += time.thread_time() - began
        self.sequence += 1
        runner.counts.decisions += 1
        if deciding.took_ms == 0:
            self._commit(runner, deciding, at_ms)
            runner.next_start_ms = at_ms + 1
            return
        runner.deciding = deciding
        self._push(at_ms + deciding.took_ms, Due.COMMIT, runner, runner.generation)
        max_ms = round(1000 * runner.row.entry.decision_max_s)
        if deciding.took_ms > max_ms:
            self._push(at_ms + max_ms, Due.OVERTIME, runner, runner.generation)

    def _commit(self, runner: Runner, deciding: Deciding, at_ms: int) -> None:
        """Commit an answer, and continue its applications by the outcome."""
        runner.deciding = None
        began = time.thread_time()
        if self._invariants is not None:
            self._invariants.before(self.rm.state)
        fates, verdicts = self.transactions.commit(runner.place, deciding)
        if self._invariants is not None:
            self._invariants.after(self.rm.state, deciding.made, fates, 0)
        self.profile.commit += time.thread_time() - began
        self.fates.update(fates.fate.tolist())
        for app, attempt in deciding.attempts.items():
            self._count(runner, attempt, verdicts[app], at_ms)
            waiting = self._waiting.get(app)
            if waiting is not None and waiting.turn == attempt.turn:
                waiting.asks = self._asks(app)
                self._go_on(runner, app, waiting, verdicts[app], attempt.asked, at_ms, full=deciding.full)
        if not self.roster.lives(runner.row.name):
            self._return(runner, at_ms)

    def _count(self, runner: Runner, attempt: Attempt, verdict: Verdict, at_ms: int) -> None:
        counts = runner.counts
        counts.placed += verdict.placed
        counts.over_claim += verdict.over_claim
        counts.too_large += verdict.too_large
        if verdict.placed:
            self._last_progress_ms = at_ms
        if verdict.conflict or verdict.not_owner:
            counts.conflicts += verdict.conflict
            counts.wasted_ms += attempt.took_ms
        elif verdict.placed:
            counts.transactions += 1
            counts.useful_ms += attempt.took_ms
        else:
            counts.empty += 1
            counts.empty_ms += attempt.took_ms

    def _go_on(
        self, runner: Runner, app: int, waiting: Waiting, verdict: Verdict, asked: int, at_ms: int, *, full: bool
    ) -> None:
        """Finish an application, queue it for its next turn, or give it up."""
        retry = runner.row.entry.retry
        left = asked - verdict.placed
        if verdict.conflict:
            waiting.conflicts = (0 if verdict.placed else waiting.conflicts) + 1
            wait_ms = retry.wait_ms(waiting.conflicts)
            if waiting.conflicts >= retry.attempts_max:
                move = self.roster.give_up(app, at_ms)
                if move is not None:
                    runner.counts.given_up += 1
                    self._move([move], at_ms)
                    return
        elif left <= 0 or full:
            if left <= 0:
                waiting.attempts = waiting.conflicts = 0
            waiting.enter(active=False)
            self._let_wait(app, waiting, at_ms)
            return
        else:
            wait_ms = retry.backoff_ms
            waiting.conflicts = 0
        self._push(at_ms + wait_ms, Due.RETRY, runner, app, waiting.enter())

    # Time

    def _next(self, at_ms: int) -> int:
        """Return the time of the next possible event, or -1."""
        tick_ms = self._scenario.decision.tick_ms
        times_ms = []
        if self._agenda:
            times_ms.append(max(self._agenda[0][0], at_ms))
        coming = self.rm.next_time()
        if coming >= 0:
            times_ms.append(max(-(-coming // tick_ms) * tick_ms, at_ms))
        ready = [each for each in self.runners.values() if each.alive and each.deciding is None and each.queue]
        times_ms += [-(-max(each.next_start_ms, at_ms + 1) // tick_ms) * tick_ms for each in ready]
        return min(times_ms, default=-1)

    def _may_stall(self) -> bool:
        return all(runner.alive for runner in self.runners.values())

    def _warned(self) -> tuple[str, ...]:
        own = (f"{runner.row.name}: {text}" for runner in self.runners.values() for text in runner.warnings)
        return (*self._lost, *own)

    def _engine_figures(self) -> tuple[EngineFigures, ...]:
        return tuple(runner.counts.figures(runner.row.name, self.rm.now_ms) for runner in self.runners.values())


def _refuse(scenario: ScenarioModel, settings: Settings) -> None:
    """Reject features that cannot be simulated with several engines.

    Raises:
        UserError: there is such a feature.
    """
    planned = [name for name, own in settings.entries.items() if own.plans.schedules]
    if planned or scenario.frameworks.tez_order != "natural":
        what = f"engines.{planned[0]}: plans.schedules" if planned else "frameworks.tez_order"
        raise UserError(f"{what}: plans are not simulated with several engines; leave it out")
    for name, entry in scenario.engines.items():
        copies = sum(row.entry_name == name for row in settings.engines)
        for outage in entry.outages:
            if outage.copy_number > copies:
                raise UserError(f"engines.{name}.outages: there is no copy {outage.copy_number}, but {copies}")


BESIDES = tuple(ScenarioEngine.model_fields)
"""Fields of an engine that exist in a scenario only."""


def with_engines(
    scenario: ScenarioModel, settings: Settings, file: str = "", text: str | None = None, *, trust_code: bool = False
) -> Settings:
    """Return settings with a scenario's engines, if it has any.

    Args:
        scenario: the scenario
        settings: the default settings of its engines
        file: name of the scenario in errors
        text: content of the file, for line numbers in errors; without it there are none
        trust_code: whether Python files of the engines' policies may be executed

    Raises:
        ConfigError: an entry is wrong.
        UserError: the settings have engines of their own.
    """
    if not scenario.engines:
        return settings
    if settings.engines:
        raise UserError("engines: are in the scenario and in the policy's file; take them out of one")
    if text is None:
        text = json.dumps({"engines": {name: entry.model_extra for name, entry in scenario.engines.items()}})
    return parse_engines(file, text, settings, BESIDES, trust_code=trust_code)

"""One run with several engines on the simulated RM: each decides at its own pace and commits optimistically.

Omega (EuroSys 2013), section 3.4. An engine takes up the applications of its queue, looks at the cluster as it is, and
answers when its decision time is over; until then the others go on.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum

from treadle.config.engines import STEADY_MS, lost_queues
from treadle.config.settings import Settings
from treadle.errors import UserError
from treadle.policy.stopwatch import PartTimes
from treadle.sidecar.roster import Asking, Move, Roster
from treadle.simulator.attempts import Phase, Waiting
from treadle.simulator.build import build
from treadle.simulator.cluster.state import AppState
from treadle.simulator.engine_figures import EngineFigures
from treadle.simulator.invariants import Invariants
from treadle.simulator.loop import Loop, rm_settings
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.runner import Attempt, Deciding, Runner
from treadle.simulator.scenario import Scenario, ScenarioEngine
from treadle.simulator.transactions import Transactions, Verdict
from treadle.simulator.watcher import Watcher
from treadle.workload.job import Workload


class Due(IntEnum):
    """What is due at an instant, in the order in which it happens."""

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
        self, scenario: Scenario, workload: Workload, settings: Settings, seed: int, *, check: bool = True
    ) -> None:
        """Make everything ready; the arguments are those of `Simulation`, and ``settings`` have engines.

        Raises:
            UserError: the scenario, the jobs and the engines do not go together.
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
            for outage in entry.outages:
                if outage.copy_number == row.copy + 1:
                    begin_ms = round(1000 * outage.at_s)
                    self._push(begin_ms, Due.DIES, runner)
                    self._push(begin_ms + max(round(1000 * outage.for_s), 1), Due.RETURNS, runner)
        self._lost = [
            f"{'.'.join(path)}: {text}" for path, text in lost_queues(settings.engines, self.built.tree.paths)
        ]
        self._watcher = Watcher()
        self._waiting: dict[int, Waiting] = {}
        self._invariants = Invariants(self.built, settings) if check else None

    def step(self, at_ms: int) -> None:
        """Let time go on to an instant, and all happen that is due then.

        Raises:
            PolicyFailedError: a part of a policy failed.
        """
        self._advance(at_ms)
        if self._happen(at_ms):
            self._advance(at_ms)  # application masters whose heartbeat is now hear of it
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
        self._watch(at_ms)
        self.profile.events += time.thread_time() - began

    def _happen(self, at_ms: int) -> bool:
        """Let all happen that is due; return whether anything was committed."""
        committed = False
        while self._agenda and self._agenda[0][0] <= at_ms:
            _, kind, _, _, name, subject, turn = heapq.heappop(self._agenda)
            if kind == Due.RETRY:
                self._retry(self.runners[name], subject, turn)
                continue
            if kind == Due.STEADY:
                self._move(self.roster.settle(at_ms), at_ms)
                continue
            runner = self.runners[name]
            if kind == Due.DIES:
                self._die(runner, at_ms)
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
        """Let something be due; of answers that are due at once those with precedence come first.

        ``subject`` is the engine's generation, or with its ``turn`` an application.
        """
        self._pushed += 1
        first = -runner.row.entry.precedence if due == Due.COMMIT else 0
        then = runner.place if due == Due.COMMIT else self._pushed
        heapq.heappush(self._agenda, (at_ms, due, first, then, runner.row.name, subject, turn))

    # Who serves what

    def _watch(self, at_ms: int) -> None:
        """Take notice of applications that came, ended, or ask for something else."""
        state = self.rm.state
        seen = self._watcher.look(state)
        for app in seen.themselves.tolist():
            stands = state.apps["state"][app]
            if stands == AppState.FINISHED:
                self.roster.end(app)
                self._waiting.pop(app, None)
            elif stands in (AppState.STARTING, AppState.RUNNING) and app not in self._waiting:
                self._waiting[app] = Waiting(self._asks(app))
                owner = self.roster.begin(app, self._asking(app), at_ms)
                if owner is not None:
                    self.runners[owner].serve(app)
        for app in dict.fromkeys([*seen.asking.tolist(), *seen.themselves.tolist()]):
            waiting = self._waiting.get(app)
            if waiting is not None:
                waiting.asks = self._asks(app)
                self._let_wait(app, waiting, at_ms)

    def _let_wait(self, app: int, waiting: Waiting, at_ms: int) -> None:
        """Put an application that asks for something into its owner's queue."""
        owner = self.roster.owner(app)
        if waiting.phase != Phase.IDLE or waiting.asks == 0 or owner is None:
            return
        if not waiting.tried and waiting.asked_ms < 0:
            waiting.asked_ms = at_ms
        self.runners[owner].queue.put(app, waiting.enter(Phase.QUEUED))

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
        """Let applications have other owners."""
        for move in moves:
            if move.before is not None:
                before = self.runners[move.before]
                before.lose(move.application)
                before.counts.moved += 1
            waiting = self._waiting[move.application]
            waiting.enter(Phase.IDLE)
            waiting.conflicts = 0
            if move.after is not None:
                self.runners[move.after].serve(move.application)
                self._let_wait(move.application, waiting, at_ms)

    def _die(self, runner: Runner, at_ms: int) -> None:
        runner.alive, runner.deciding = False, None
        runner.generation += 1
        self._move(self.roster.dies(runner.row.name, at_ms), at_ms)

    def _return(self, runner: Runner, at_ms: int) -> None:
        runner.alive = True
        self._move(self.roster.returns(runner.row.name, at_ms), at_ms)
        self._push(at_ms + STEADY_MS, Due.STEADY, runner)

    # Decisions

    def _begin(self, runner: Runner, at_ms: int) -> None:
        """Let an engine take up applications of its queue and decide on them."""
        asked, turns = {}, {}
        for app in runner.queue.take(self._waiting, runner.costs.jobs_max):
            waiting = self._waiting[app]
            if waiting.asks == 0:
                waiting.enter(Phase.IDLE)
                continue
            if not waiting.tried:
                waiting.tried = True
                runner.counts.waits_ms.append(at_ms - waiting.asked_ms)
            runner.counts.retries += waiting.attempts > 0
            waiting.attempts += 1
            asked[app], turns[app] = waiting.asks, waiting.enter(Phase.DECIDING)
        if not asked:
            return
        began = time.thread_time()
        deciding = runner.decide(self.rm, asked, turns, self.transactions.base(runner.place), at_ms)
        self.profile.decide += time.thread_time() - began
        self.sequence += 1
        runner.counts.decisions += 1
        if deciding.took_ms == 0:
            self._commit(runner, deciding, at_ms)
            runner.next_start_ms = at_ms + 1
            return
        runner.deciding = deciding
        self._push(at_ms + deciding.took_ms, Due.COMMIT, runner, runner.generation)
        if deciding.took_ms > runner.max_ms:
            self._push(at_ms + runner.max_ms, Due.OVERTIME, runner, runner.generation)

    def _commit(self, runner: Runner, deciding: Deciding, at_ms: int) -> None:
        """Commit an answer, and let applications go on by its outcome."""
        runner.deciding = None
        asked = {app: attempt.asked for app, attempt in deciding.attempts.items()}
        began = time.thread_time()
        if self._invariants is not None:
            self._invariants.before(self.rm.state, deciding.made)
        fates, verdicts = self.transactions.commit(runner.place, deciding.made, deciding.sequence, deciding.base, asked)
        if self._invariants is not None:
            self._invariants.after(self.rm.state, deciding.made, fates, 0)
        self.profile.commit += time.thread_time() - began
        self._count_fates(fates.fate.tolist())
        for app, attempt in deciding.attempts.items():
            self._count(runner, attempt, verdicts[app], at_ms)
            waiting = self._waiting.get(app)
            if waiting is not None and waiting.turn == attempt.turn:
                waiting.asks = self._asks(app)
                self._go_on(runner, app, waiting, verdicts[app], asked[app], at_ms, full=deciding.full)
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
        """Let an application be done, wait for its next turn, or be given up."""
        retry = runner.row.entry.retry
        left = asked - verdict.placed
        if verdict.conflict:
            wait_ms = waiting.conflicted(retry, verdict.placed)
            if waiting.conflicts >= retry.attempts_max:
                move = self.roster.give_up(app, at_ms)
                if move is not None:
                    runner.counts.given_up += 1
                    self._move([move], at_ms)
                    return
        elif left <= 0 or full:
            if left <= 0:
                waiting.succeeds()
            waiting.enter(Phase.IDLE)
            self._let_wait(app, waiting, at_ms)
            return
        else:
            wait_ms = retry.backoff_ms
            waiting.conflicts = 0
        self._push(at_ms + wait_ms, Due.RETRY, runner, app, waiting.enter(Phase.BACKING_OFF))

    def _retry(self, runner: Runner, app: int, turn: int) -> None:
        waiting = self._waiting.get(app)
        if waiting is not None and waiting.turn == turn:
            runner.queue.put(app, waiting.enter(Phase.QUEUED))

    # Time

    def _next(self, at_ms: int) -> int:
        """Return when something can happen next, or -1 if nothing can."""
        tick_ms = self._scenario.decision.tick_ms
        found = []
        if self._agenda:
            found.append(max(self._agenda[0][0], at_ms))
        coming = self.rm.next_time()
        if coming >= 0:
            found.append(max(-(-coming // tick_ms) * tick_ms, at_ms))
        ready = [each for each in self.runners.values() if each.alive and each.deciding is None and each.queue]
        found += [-(-max(each.next_start_ms, at_ms + 1) // tick_ms) * tick_ms for each in ready]
        return min(found, default=-1)

    def _may_stall(self) -> bool:
        return all(runner.alive for runner in self.runners.values())

    def _warned(self) -> tuple[str, ...]:
        own = (f"{runner.row.name}: {text}" for runner in self.runners.values() for text in runner.warnings)
        return (*self._lost, *own)

    def _engine_figures(self) -> tuple[EngineFigures, ...]:
        return tuple(runner.counts.figures(runner.row.name, self.rm.now_ms) for runner in self.runners.values())

    def _part_times(self) -> PartTimes:
        return _slowest([runner.part_times() for runner in self.runners.values()])


def _slowest(times: list[PartTimes]) -> PartTimes:
    """Return what parts of all engines took together, and of the slowest decide when it was."""
    slowest = max(times, key=lambda each: each.slowest_s)
    all_s, decides = sum(each.all_s for each in times), sum(each.decides for each in times)
    return replace(slowest, all_s=all_s, decides=decides, too_slow=sum(each.too_slow for each in times))


def _refuse(scenario: Scenario, settings: Settings) -> None:
    """Refuse what cannot be simulated with several engines.

    Raises:
        UserError: there is such a thing.
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

"""A stage as events change it: containers as attempts at its tasks, and how each ended.

From request priorities to stages, for each framework.

MapReduce (RMContainerAllocator): 5 maps that are asked for again, 10 reduces, 19 opportunistic maps, 20 maps. Tez: each
vertex has three priorities of its own, of which two are used. Spark: the number of a resource profile, which says
nothing of stages; all executors are one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from treadle.history.run import Measured, StageRun
from treadle.history.sketch import DurationSketch
from treadle.yarn import codes
from treadle.yarn.codes import FAILED_MAP, MAP, OPPORTUNISTIC_MAP, REDUCE

_MAPREDUCE: Final = {FAILED_MAP: ("map", 0), OPPORTUNISTIC_MAP: ("map", 0), MAP: ("map", 0), REDUCE: ("reduce", 1)}


class Framework(StrEnum):
    """Whose application it is, by YARN's application type."""

    MAPREDUCE = "MAPREDUCE"
    TEZ = "TEZ"
    SPARK = "SPARK"
    OTHER = "OTHER"

    @classmethod
    def of(cls, type_: str) -> Framework:
        """Return the framework of an application type."""
        return cls(type_.upper()) if type_.upper() in set(cls) else cls.OTHER

    @property
    def measured(self) -> Measured:
        """What a container's time is the time of: MapReduce starts one for each attempt of a task."""
        return Measured.TASKS if self is Framework.MAPREDUCE else Measured.CONTAINERS


class StageId(NamedTuple):
    """Which stage of its job; sorts in an order in which parents come first, as far as that is known."""

    position: int
    name: str


def stage_of(framework: Framework, priority: int) -> StageId:
    """Return the stage that containers of a priority belong to.

    Tez's vertices are distinguished and ordered by the priority of their first asks. With N vertices that of vertex
    ``id`` is p = 3 ((depth + 1) N + id) - 1, and p - 1 for attempts that are asked for again (DAGScheduler and
    TaskAttemptImpl, 0.10.5); N is not known here, since a session may run DAGs of several sizes.
    """
    if framework is Framework.MAPREDUCE and priority in _MAPREDUCE:
        name, position = _MAPREDUCE[priority]
        return StageId(position, name)
    if framework is Framework.TEZ:
        first = 3 * -(-priority // 3) - 1
        return StageId(first, f"priority {first}")
    if framework is Framework.SPARK:
        return StageId(0, "executors")
    return StageId(priority, f"priority {priority}")


class Outcome(StrEnum):
    """How an attempt ended. Only those that ended well show how long a task takes."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    RELEASED = "released"
    """Given back by its application when it was no longer needed: how containers of Tez and Spark end."""
    FAILED = "failed"
    KILLED = "killed"
    """By its application master, as the loser of two speculative attempts is, or by somebody else."""
    PREEMPTED = "preempted"
    LOST = "lost"
    """With its node or disk, or unseen."""


WELL: Final = frozenset({Outcome.SUCCEEDED, Outcome.RELEASED})

_PREEMPTED: Final = frozenset({codes.PREEMPTED, codes.KILLED_BY_CONTAINER_SCHEDULER})
_KILLED: Final = frozenset(
    {
        codes.KILLED_BY_APPMASTER,
        codes.KILLED_BY_RESOURCEMANAGER,
        codes.KILLED_AFTER_APP_COMPLETION,
        codes.SIGKILL,
        codes.SIGTERM,
    }
)
_FAILED: Final = frozenset(
    {
        codes.KILLED_EXCEEDED_VMEM,
        codes.KILLED_EXCEEDED_PMEM,
        codes.KILLED_FOR_EXCESS_LOGS,
    }
)


def outcome_of(framework: Framework, exit_status: int) -> Outcome:
    """Return what an exit status of YARN's says (`ContainerExitStatus`).

    A MapReduce attempt that failed ends with 0 like one that succeeded: its task's JVM reports the failure to the
    application master and exits normally. `treadle.history.stages.stage.StageState` recognises those by what is
    asked for next.
    """
    if exit_status == codes.SUCCESS:
        return Outcome.SUCCEEDED
    if exit_status in _PREEMPTED:
        return Outcome.PREEMPTED
    if exit_status == codes.ABORTED:
        return Outcome.LOST if framework is Framework.MAPREDUCE else Outcome.RELEASED
    if exit_status in _KILLED:
        return Outcome.KILLED
    if exit_status > 0 or exit_status in _FAILED:
        return Outcome.FAILED
    return Outcome.LOST


class ContainerKey(NamedTuple):
    """Distinguishes the containers of an application: numbers begin anew with each of its attempts."""

    container: int
    """Its number within its application attempt."""
    created_ms: int


@dataclass(slots=True)
class Attempt:
    """A container of a stage."""

    key: ContainerKey
    priority: int
    node: int
    """The shim's index of the node; -1 if it has gone."""
    started_ms: int = -1
    ended_ms: int = -1
    exit_status: int = 0
    outcome: Outcome = Outcome.RUNNING
    answered: bool = False
    """It is known which ask followed its end."""

    @property
    def duration_ms(self) -> int:
        """From its allocation to its end, by the ResourceManager's clock; -1 if not known or the clock went back."""
        return self.ended_ms - self.key.created_ms if self.ended_ms >= self.key.created_ms else -1


RECENT_MAX: Final = 100
"""Attempts that ended which a stage remembers one by one."""

SETTLE_MS: Final = 5_000
"""How long after its end an attempt may turn out to have failed.

An application master asks again at its next heartbeat, a second or less after a failure."""


LAST_MS: Final = 15_000
"""How long before its application goes a container may have been killed for its AM having finished, which then
takes some five seconds to exit."""


class StageState:
    """A stage as events change it. Times are of the ResourceManager's clock, which may step back."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._pending: dict[int, int] = {}
        self._allocated: Counter[int] = Counter()
        self._asked: dict[int, int] = {}
        self._running: dict[ContainerKey, Attempt] = {}
        self._recent: deque[Attempt] = deque(maxlen=RECENT_MAX)
        self._unsettled: deque[Attempt] = deque()
        self._outcomes: Counter[Outcome] = Counter()
        self._durations = DurationSketch()
        self._failures_due = 0
        self._width = 0
        self._late = 0
        self.demand: Mapping[str, int] = {}

    @property
    def pending(self) -> int:
        """How many containers are asked for."""
        return sum(self._pending.values())

    @property
    def width(self) -> int:
        """How many tasks it has, as far as is known: the most that were pending, running and done together."""
        return self._width

    @property
    def well(self) -> int:
        """How many attempts ended well."""
        return sum(self._outcomes[outcome] for outcome in WELL)

    @property
    def failed(self) -> int:
        """How many attempts are known to have failed."""
        return self._outcomes[Outcome.FAILED]

    @property
    def done(self) -> bool:
        """Have as many attempts ended well as are known to be wanted, and is nothing asked for?

        Asks beyond the width that come when tasks have ended already may be for speculative attempts, of which only one
        of two ends well. And an AM may ask again for what was allocated before it has heard of it, which makes the
        stage look wider: where nothing ended otherwise than well, nothing can be missing.
        """
        ended = sum(self._outcomes.values())
        return self.pending == 0 and (self.well >= self._width - self._late or 0 < self.well == ended)

    def ask(self, priority: int, count: int, now_ms: int) -> None:
        """Take the outstanding count at a priority, absolute, after the allocations that came with it."""
        self._pending[priority] = count
        # A count may arrive before the allocation that lowered it: only what exceeds all so far was asked for anew.
        asked, before = count + self._allocated[priority], self._asked.get(priority, 0)
        self._asked[priority] = max(asked, before)
        if priority == FAILED_MAP and self._framework is Framework.MAPREDUCE:
            for _ in range(min(max(0, asked - before), RECENT_MAX)):
                self._asked_again(now_ms)
        self._grow()

    def forget_asks(self) -> None:
        """Forget the asks: all are reported again."""
        self._pending.clear()

    def allocate(self, attempt: Attempt) -> None:
        """Take a container that was allocated."""
        self._running[attempt.key] = attempt
        self._allocated[attempt.priority] += 1

    def found(self, attempt: Attempt) -> None:
        """Take a container that runs and whose allocation was not seen."""
        self._running.setdefault(attempt.key, attempt)

    def start(self, key: ContainerKey, time_ms: int) -> None:
        """Take that a container was launched."""
        if key in self._running:
            self._running[key].started_ms = time_ms

    def end(self, key: ContainerKey, outcome: Outcome, exit_status: int, time_ms: int) -> None:
        """Take that a container ended; nothing if it is not known to run."""
        attempt = self._running.pop(key, None)
        if attempt is None:
            return
        attempt.ended_ms, attempt.exit_status, attempt.outcome = time_ms, exit_status, outcome
        if outcome is Outcome.SUCCEEDED and self._failures_due:
            self._failures_due -= 1
            attempt.outcome, attempt.answered = Outcome.FAILED, True
        self._outcomes[attempt.outcome] += 1
        self._recent.append(attempt)
        self._unsettled.append(attempt)
        self._count_settled(time_ms)

    def lose(self, known: Collection[ContainerKey], now_ms: int) -> int:
        """End unseen whatever runs and is not among the containers known to; returns how many."""
        lost = [key for key in self._running if key not in known]
        for key in lost:
            self.end(key, Outcome.LOST, 0, now_ms)
        return len(lost)

    def settle(self) -> None:
        """Take that its application has gone: no attempt that ended well will turn out to have failed."""
        self._count_settled(0, all_=True)
        self._grow()

    def finish(self, gone_ms: int) -> None:
        """Take that its application has gone: what was killed at the very end, and alone is missing, has done its task.

        A MapReduce AM that has finished kills the JVMs of its last tasks, which have reported that they are done
        and are about to exit. One whose job has failed kills what runs, too: not for stages of jobs with attempts that
        failed, or that were asked for anew.
        """
        missing = self._width - self.well
        if self._framework is not Framework.MAPREDUCE or self.pending or self._late or missing <= 0:
            return
        ends = [
            attempt
            for attempt in self._recent
            if attempt.outcome is Outcome.KILLED and 0 <= gone_ms - attempt.ended_ms <= LAST_MS
        ]
        if len(ends) < missing:
            return
        for attempt in ends[-missing:]:
            attempt.outcome = Outcome.SUCCEEDED
            self._outcomes[Outcome.KILLED] -= 1
            self._outcomes[Outcome.SUCCEEDED] += 1
            if attempt.duration_ms >= 0:
                self._durations.add(attempt.duration_ms)

    def run(self, at: StageId, parents: tuple[str, ...]) -> StageRun:
        """Return the finished stage; its width is that of the tasks that were done."""
        width = min(self._width, self.well) if self._framework is Framework.MAPREDUCE else self._width
        durations = DurationSketch()
        durations.merge(self._durations)
        return StageRun(at.name, width, durations, self.demand, parents, None, self._framework.measured)

    def _count_settled(self, now_ms: int, *, all_: bool = False) -> None:
        while self._unsettled:
            attempt = self._unsettled[0]
            # a clock that stepped back must not keep it here
            if not all_ and 0 <= now_ms - attempt.ended_ms < SETTLE_MS:
                break
            self._unsettled.popleft()
            if attempt.outcome in WELL and attempt.duration_ms >= 0:
                self._durations.add(attempt.duration_ms)

    def _grow(self) -> None:
        # An attempt whose failure is known before its end is counted with those that run and asked for again.
        width = self.pending + len(self._running) + self.well - self._failures_due
        if width > self._width:
            self._late += width - self._width if self.well else 0
            self._width = width

    def _asked_again(self, now_ms: int) -> None:
        """A map is asked for again: take the attempt that ended last for the one that failed, or the next to end."""
        for attempt in reversed(self._recent):
            if attempt.answered:
                continue
            if abs(now_ms - attempt.ended_ms) > SETTLE_MS:
                break
            attempt.answered = True
            if attempt.outcome is Outcome.SUCCEEDED:
                self._outcomes[Outcome.SUCCEEDED] -= 1
                self._outcomes[Outcome.FAILED] += 1
                attempt.outcome = Outcome.FAILED
            return
        self._failures_due = min(self._failures_due + 1, len(self._running))

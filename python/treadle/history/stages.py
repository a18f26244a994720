"""Converts the engine's events to jobs and stages, and finished jobs to runs.

No socket, clock or file: it processes the events of each frame in order. Times are arguments. Everything is bounded:
items beyond a limit are counted in `StageTracker.untracked` and otherwise ignored.

A job is one YARN application, including all its attempts. Its stages follow from request priorities. MapReduce
(RMContainerAllocator): 5 repeated maps, 10 reduces, 19 opportunistic maps, 20 maps. Tez: each vertex has three
priorities of its own, two of which are used. Spark: the number of a resource profile, unrelated to stages; all
executors are one stage.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, Replaces
from treadle.history.profile import DurationSketch, JobRun, Measured, RecurrenceKey, StageRun, recurrence_key
from treadle.yarn import codes
from treadle.yarn.codes import FAILED_MAP, MAP, OPPORTUNISTIC_MAP, REDUCE, application_id

_MAPREDUCE: Final = {FAILED_MAP: ("map", 0), OPPORTUNISTIC_MAP: ("map", 0), MAP: ("map", 0), REDUCE: ("reduce", 1)}


class Framework(StrEnum):
    """The framework of an application, by YARN's application type."""

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
        """The unit that a container's lifetime measures: MapReduce starts one for each attempt of a task."""
        return Measured.TASKS if self is Framework.MAPREDUCE else Measured.CONTAINERS


class StageId(NamedTuple):
    """Identifies a stage of a job; sorts with parents first, as far as known."""

    position: int
    name: str


def stage_of(framework: Framework, priority: int) -> StageId:
    """Return the stage of containers with a priority.

    Tez's vertices are distinguished and ordered by the priority of their first requests. With N vertices that of vertex
    ``id`` is p = 3 ((depth + 1) N + id) - 1, and p - 1 for repeated attempts (DAGScheduler and TaskAttemptImpl,
    0.10.5); N is unknown here, since a session may run DAGs of several sizes.
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
    """The end of an attempt. Only successful ones measure a task's duration."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    RELEASED = "released"
    """Released by its application when no longer needed: the usual end of Tez and Spark containers."""
    FAILED = "failed"
    KILLED = "killed"
    """By its application master, such as the slower of two speculative attempts, or by another party."""
    PREEMPTED = "preempted"
    LOST = "lost"
    """With its node or disk, or not observed."""


WELL: Final = frozenset({Outcome.SUCCEEDED, Outcome.RELEASED})

_KILLED: Final = (
    codes.KILLED_BY_APPMASTER,
    codes.KILLED_BY_RESOURCEMANAGER,
    codes.KILLED_AFTER_APP_COMPLETION,
    codes.SIGKILL,
    codes.SIGTERM,
)
_OUTCOMES: Final = (
    {codes.SUCCESS: Outcome.SUCCEEDED}
    | dict.fromkeys((codes.PREEMPTED, codes.KILLED_BY_CONTAINER_SCHEDULER), Outcome.PREEMPTED)
    | dict.fromkeys(_KILLED, Outcome.KILLED)
    | dict.fromkeys((codes.KILLED_EXCEEDED_VMEM, codes.KILLED_EXCEEDED_PMEM), Outcome.FAILED)
    | {codes.KILLED_FOR_EXCESS_LOGS: Outcome.FAILED}
)


def outcome_of(framework: Framework, exit_status: int) -> Outcome:
    """Return the meaning of YARN's exit status (`ContainerExitStatus`).

    A failed MapReduce attempt ends with 0 like a successful one: its task's JVM reports the failure to the application
    master and exits normally. `StageState` detects those by the following requests.
    """
    if exit_status == codes.ABORTED and framework is not Framework.MAPREDUCE:
        return Outcome.RELEASED
    return _OUTCOMES.get(exit_status, Outcome.FAILED if exit_status > 0 else Outcome.LOST)


class ContainerKey(NamedTuple):
    """Identifies a container of an application: numbers restart with each attempt."""

    container: int
    """Its number within its application attempt."""
    created_ms: int


@dataclass(slots=True)
class Attempt:
    """A container of a stage."""

    key: ContainerKey
    priority: int
    ended_ms: int = -1
    outcome: Outcome = Outcome.RUNNING
    answered: bool = False
    """Whether the request after its end is known."""

    @property
    def duration_ms(self) -> int:
        """From its allocation to its end, by the ResourceManager's clock; -1 if unknown or the clock went back."""
        return self.ended_ms - self.key.created_ms if self.ended_ms >= self.key.created_ms else -1


RECENT_MAX: Final = 100
"""Maximum number of ended attempts that a stage remembers."""

SETTLE_MS: Final = 5_000
"""How long after its end an attempt may turn out to have failed, in ms.

An application master repeats the request at its next heartbeat, at most a second after a failure."""


LAST_MS: Final = 15_000
"""Time before the end of its application, in ms, in which a container may have been killed because its AM had finished;
the AM then takes about five seconds to exit."""


class StageState:
    """A stage, updated by events. Times are by the ResourceManager's clock, which may step back."""

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
        self.width = 0
        """Number of tasks, as far as known: the maximum of pending, running and done together."""
        self._late = 0
        self.demand: Mapping[str, int] = {}

    @property
    def pending(self) -> int:
        """Number of requested containers."""
        return sum(self._pending.values())

    @property
    def well(self) -> int:
        """Number of successful attempts."""
        return sum(self._outcomes[outcome] for outcome in WELL)

    @property
    def failed(self) -> int:
        """Number of failed attempts, as far as known."""
        return self._outcomes[Outcome.FAILED]

    @property
    def done(self) -> bool:
        """Whether all known tasks have succeeded, and no container is requested.

        Additional requests after the end of tasks may be for speculative attempts, only one of each pair of which
        succeeds. And an AM may repeat a request before it learns of the allocation, so that the stage appears wider: if
        all attempts succeeded, none can be missing.
        """
        ended = sum(self._outcomes.values())
        return self.pending == 0 and (self.well >= self.width - self._late or 0 < self.well == ended)

    def ask(self, priority: int, count: int, now_ms: int) -> None:
        """Apply the outstanding count at a priority (absolute), after the allocations of the same frame."""
        self._pending[priority] = count
        # A count may arrive before the allocation that reduced it: only an increase over the maximum is a new request.
        total, before = count + self._allocated[priority], self._asked.get(priority, 0)
        self._asked[priority] = max(total, before)
        if priority == FAILED_MAP and self._framework is Framework.MAPREDUCE:
            for _ in range(min(max(0, total - before), RECENT_MAX)):
                self._asked_again(now_ms)
        self._grow()

    def forget_asks(self) -> None:
        """Reset the requests: all are reported again."""
        self._pending.clear()

    def run_container(self, attempt: Attempt, *, allocated: bool) -> None:
        """Add a running container: just allocated, or its allocation was not observed."""
        self._running[attempt.key] = attempt
        self._allocated[attempt.priority] += allocated

    def end(self, key: ContainerKey, outcome: Outcome, time_ms: int) -> None:
        """Record the end of a container; ignored if it is not known to run."""
        attempt = self._running.pop(key, None)
        if attempt is None:
            return
        attempt.ended_ms, attempt.outcome = time_ms, outcome
        if outcome is Outcome.SUCCEEDED and self._failures_due:
            self._failures_due -= 1
            attempt.outcome, attempt.answered = Outcome.FAILED, True
        self._outcomes[attempt.outcome] += 1
        self._recent.append(attempt)
        self._unsettled.append(attempt)
        self._count_settled(time_ms)

    def lose_running(self, known: Collection[ContainerKey], now_ms: int) -> int:
        """End running containers that are not among the known ones, as not observed; return their number."""
        lost = [key for key in self._running if key not in known]
        for key in lost:
            self.end(key, Outcome.LOST, now_ms)
        return len(lost)

    def settle(self) -> None:
        """Record the end of the application: no successful attempt will turn out to have failed."""
        self._count_settled(0, all_=True)
        self._grow()

    def finish(self, gone_ms: int) -> None:
        """Record the end of the application: containers killed at the very end may count as successful.

        They do if only they are missing: a MapReduce AM that has finished kills the JVMs of its last tasks, which have
        reported their success and are about to exit. The AM of a failed job kills running tasks, too: stages of jobs
        with failed or repeated attempts are excluded.
        """
        missing = self.width - self.well
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
        """Return the finished stage; its width is the number of completed tasks."""
        width = min(self.width, self.well) if self._framework is Framework.MAPREDUCE else self.width
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
        # An attempt known to have failed before its end is counted as running and as requested again.
        width = self.pending + len(self._running) + self.well - self._failures_due
        if width > self.width:
            self._late += width - self.width if self.well else 0
            self.width = width

    def _asked_again(self, now_ms: int) -> None:
        """Handle the repeated request of a map: the attempt that ended last has failed, or the next one to end."""
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


_log = logging.getLogger(__name__)

STAGES_MAX: Final = 1000
TAGS_MAX: Final = 100
KEYS_MAX: Final = 10_000
"""Maximum number of request keys of a job with a stored count."""


class JobState:
    """One application."""

    def __init__(self, cluster_timestamp: int, id_: int, type_: str, *, whole: bool) -> None:
        self.id = application_id(cluster_timestamp, id_)
        self.type = type_
        self.framework = Framework.of(type_)
        self.index = -1
        self.name = self.user = self.queue = ""
        self.resources: tuple[str, ...] = ()
        self.started_ms = 0
        self.gone_ms: int | None = None
        self.am_exit_status = 0
        self.awaiting_am = False
        self.unconfirmed = False
        self._confirmed: set[ContainerKey] = set()
        """Containers reported since the start of the last snapshot."""
        self._whole = whole
        """Whether it was observed from its start, without a gap."""
        self._tags: list[str] = []
        self._hints_ms: dict[str, int] = {}
        """Task duration predicted for the engine, by stage."""
        self._states: dict[int, StageState] = {}
        """By the first priority of the stage."""
        self._groups: dict[int, int] = {}
        self._counts: dict[int, tuple[int, int]] = {}
        """Priority and outstanding count by request key."""
        self._totals: Counter[int] = Counter()
        self._running_containers: dict[ContainerKey, int] = {}

    def tag(self, tag: str) -> None:
        """Add a tag."""
        if tag not in self._tags and len(self._tags) < TAGS_MAX:
            self._tags.append(tag)

    def note_hint(self, stage: str, duration_ms: int) -> None:
        """Record the predicted duration of a stage's tasks that the engine received."""
        if len(self._hints_ms) < STAGES_MAX:
            self._hints_ms.setdefault(stage, duration_ms)

    @property
    def _only_masters_at_0(self) -> bool:
        """Return whether the framework never requests tasks at priority 0."""
        return self.framework in (Framework.MAPREDUCE, Framework.TEZ)

    def _why_not(self) -> str:
        """Return why the job gives no run; empty if it does."""
        if not self._whole:
            return "it was not seen from its start to its end"
        if not self._states:
            return "it asked for nothing"
        if outcome_of(self.framework, self.am_exit_status) not in WELL:
            return f"its master ended with status {self.am_exit_status}"
        for first, state in self._states.items():
            if state.pending or (self.framework is Framework.MAPREDUCE and not state.done):
                done = f"{state.well} of {state.width} tasks done, {state.pending} asked for"
                return f"stage {self.stage(first).name}: {done} when it ended"
        return ""

    def stage(self, priority: int) -> StageId:
        """Return the stage of containers with a priority."""
        return stage_of(self.framework, priority)

    def demand(self, priority: int) -> Mapping[str, int]:
        """Return the resources of containers of a priority's stage; empty without requests."""
        first = self._groups.get(priority)
        return {} if first is None else self._states[first].demand

    def key(self) -> RecurrenceKey:
        """Return the identity of the recurring job."""
        return recurrence_key(self.user, self.queue, self.type, self.name, self._tags)

    def has(self, key: ContainerKey) -> bool:
        """Return whether such a container is running."""
        return key in self._running_containers

    def forget_asks(self) -> None:
        """Reset the requests: all are reported again, perhaps with other keys."""
        self._counts.clear()
        self._totals.clear()
        for state in self._states.values():
            state.forget_asks()

    def mark_unconfirmed(self) -> None:
        """Start a snapshot: containers that it lacks have ended without being observed (see `resume`)."""
        self.unconfirmed = True
        self._confirmed.clear()
        self.forget_asks()

    def ask(self, key: int, priority: int, count: int, capability: Sequence[int], now_ms: int) -> None:
        """Apply the outstanding count of a request key (absolute)."""
        if priority == 0 and (self.awaiting_am or self._only_masters_at_0):
            return  # the AM's own; Spark's executors have the same priority
        if count and key not in self._counts and len(self._counts) >= KEYS_MAX:
            self._whole = False
            return
        before, outstanding = self._counts.pop(key, (priority, 0))
        self._totals[before] -= outstanding
        self._totals[priority] += count
        if count:
            self._counts[key] = (priority, count)
        state = self._state(priority) if count or priority in self._groups else None
        if state is None:
            return
        if count:
            state.demand = dict(zip(self.resources, capability, strict=False))
        state.ask(priority, self._totals[priority], now_ms)

    def run_container(self, attempt: Attempt, capability: Sequence[int], *, allocated: bool) -> None:
        """Add a running container: just allocated, or first observed in a later step."""
        self._confirmed.add(attempt.key)
        if attempt.priority == 0 and self._only_masters_at_0:
            return  # reported before the ResourceManager has marked it as the AM's
        state = self._state(attempt.priority)
        if state is None or attempt.key in self._running_containers:
            return
        self._running_containers[attempt.key] = attempt.priority
        if not state.demand:
            state.demand = dict(zip(self.resources, capability, strict=False))
        self._whole &= allocated
        state.run_container(attempt, allocated=allocated)

    def end(self, key: ContainerKey, exit_status: int, time_ms: int) -> None:
        """Record the end of a container."""
        if key in self._running_containers:
            first = self._groups[self._running_containers.pop(key)]
            self._states[first].end(key, outcome_of(self.framework, exit_status), time_ms)
            self._confirmed.discard(key)

    def resume(self, now_ms: int) -> None:
        """Complete a snapshot: containers that it lacks have ended without being observed."""
        if self.unconfirmed:
            self.unconfirmed = self._whole = False
            self.gone_ms = now_ms if self.gone_ms is None else self.gone_ms
        for state in self._states.values():
            if state.lose_running(self._confirmed, now_ms):
                self._whole = False
        self._running_containers = {
            key: priority for key, priority in self._running_containers.items() if key in self._confirmed
        }

    def run(self) -> JobRun | None:
        """Return the finished job; None if it was not observed completely, or apparently failed."""
        if self.gone_ms is None:
            return None
        failed = any(state.failed for state in self._states.values())
        for state in self._states.values():
            state.settle()
            if not failed:
                state.finish(self.gone_ms)
        reason = self._why_not()
        if reason:
            _log.info("%s is not remembered: %s", self.id, reason)
            return None
        stages = sorted((self.stage(first), state) for first, state in self._states.items() if state.width)
        names = [at.name for at, _ in stages]
        parents = (("map",) if name == "reduce" and "map" in names else () for name in names)
        runs = tuple(
            replace(state.run(at, before), hint_ms=self._hints_ms.get(at.name))
            for (at, state), before in zip(stages, parents, strict=True)
        )
        return JobRun(self.key(), self.id, self.started_ms, self.gone_ms, runs) if runs else None

    def _state(self, priority: int) -> StageState | None:
        """Return the stage of a priority, creating it if necessary; None beyond `STAGES_MAX`."""
        first = self._groups.get(priority)
        if first is None:
            group = stage_of(self.framework, priority)
            first = next((known for known in self._states if stage_of(self.framework, known) == group), priority)
            if first not in self._states and len(self._states) >= STAGES_MAX:
                self._whole = False
                return None
            self._groups[priority] = first
        if first not in self._states:
            self._states[first] = StageState(self.framework)
        return self._states[first]


JOBS_MAX: Final = 20_000
FINISHED_MAX: Final = 10_000
"""Maximum number of pending runs; the oldest are dropped first."""

LINGER_MS: Final = 5_000
"""How long to wait for the last containers, or another attempt, after the end of an application attempt, in ms."""


class StageTracker:
    """Jobs and stages of all applications. Not thread-safe."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._resources: tuple[str, ...] = ()
        self._queues: dict[int, str] = {}
        self._jobs: dict[tuple[int, int], JobState] = {}
        self._by_index: dict[int, JobState] = {}
        self._leaving: dict[tuple[int, int], JobState] = {}
        """Jobs whose attempt has ended, before the next attempt."""
        self._ended_at_index: dict[tuple[int, int], JobState] = {}
        """Jobs whose attempt has ended."""
        self._finished: deque[JobRun] = deque(maxlen=FINISHED_MAX)
        self._resuming = False
        self._now_ms = 0
        self.untracked = 0
        """Number of reports of applications beyond the limit, since all were followed."""

    def apply(self, frame: Iterable[events.Event], now_ms: int, *, complete: bool = True) -> None:
        """Apply the events of a frame; ``complete`` is False while further parts of it follow."""
        self._now_ms = now_ms
        frame_events = list(frame)
        for event in frame_events:
            if isinstance(event, events.Snapshot):
                self._resume()
            elif isinstance(event, events.Names):
                event.into(self._names)
            elif isinstance(event, events.ResourceTypes):
                self._resources = event.names
            elif isinstance(event, events.Queues):
                self._queues = {
                    int(queue): self._name(path) for queue, path in zip(event.queue, event.path_name, strict=True)
                }
            elif isinstance(event, events.Applications):
                self._applications(event)
        # A frame's counts are those after its allocations, although they precede them.
        later = {events.Tags: self._tags, events.Containers: self._containers, events.Requests: self._requests}
        for kind, take in later.items():
            for event in frame_events:
                if isinstance(event, kind):
                    take(event)  # type: ignore[operator]
        if complete:
            self._complete()

    def job(self, application: int) -> JobState | None:
        """Return an application, by the shim's index; None if unknown."""
        return self._by_index.get(application)

    def finished(self) -> list[JobRun]:
        """Return the jobs that finished since the last call and were observed from start to end, in order."""
        runs = list(self._finished)
        self._finished.clear()
        return runs

    @property
    def is_full(self) -> bool:
        """Return whether there are more applications than the limit."""
        return self.untracked > 0 and len(self._jobs) >= JOBS_MAX

    @property
    def jobs(self) -> int:
        """Number of followed jobs."""
        return len(self._jobs)

    def _resume(self) -> None:
        """Start a snapshot: jobs stay, by YARN's IDs; those that it lacks have ended without being observed."""
        self._names = []
        self._queues = {}
        self._by_index = {}
        self._resuming = True
        for job in self._jobs.values():
            job.mark_unconfirmed()

    def _complete(self) -> None:
        if self._resuming:
            self._resuming = False
            for at, job in self._jobs.items():
                job.resume(self._now_ms)
                if job.gone_ms is not None:
                    self._leaving[at] = job
        ended = []
        for at, job in self._leaving.items():
            # a clock that stepped back must not keep it here
            job.gone_ms = self._now_ms if job.gone_ms is None else min(job.gone_ms, self._now_ms)
            if self._now_ms - job.gone_ms >= LINGER_MS:
                ended.append(at)
        for at in ended:
            del self._leaving[at]
            self._ended_at_index.pop(at, None)
            run = self._jobs.pop(at).run()
            if run is not None:
                self._finished.append(run)

    def _name(self, index: int) -> str:
        return self._names[index] if 0 <= index < len(self._names) else ""

    def _applications(self, event: events.Applications) -> None:
        for row in range(len(event.application)):
            index, at = int(event.application[row]), (int(event.cluster_timestamp[row]), int(event.id[row]))
            if event.state[row] == ApplicationState.MOVED:
                # it runs on under another engine: the known part is not a whole job
                self._by_index.pop(index, None)
                self._jobs.pop(at, None)
                self._ended_at_index.pop(at, None)
                self._leaving.pop(at, None)
                continue
            if event.state[row] == ApplicationState.GONE:
                gone = self._by_index.pop(index, None)
                if gone is not None and gone.index == index:
                    gone.gone_ms = self._now_ms
                    self._leaving[at] = self._ended_at_index[at] = gone
                continue
            job = self._jobs.get(at)
            if job is None:
                if len(self._jobs) >= JOBS_MAX:
                    self.untracked += 1
                    continue
                job = self._jobs[at] = JobState(*at, self._name(event.type_name[row]), whole=not self._resuming)
            if job.index != index or event.replaces[row] & Replaces.REQUESTS:
                job.forget_asks()  # keys of another attempt, or reported again in this frame
            self._leaving.pop(at, None)
            job.index, job.gone_ms, job.unconfirmed = index, None, False
            job.awaiting_am = bool(event.awaiting_am[row])
            job.name, job.user = self._name(event.name_name[row]), self._name(event.user_name[row])
            job.queue = self._queues.get(int(event.queue[row]), job.queue)
            job.started_ms = int(event.submit_time_ms[row])
            job.resources = self._resources
            self._by_index[index] = job

    def _tags(self, event: events.Tags) -> None:
        for application, tag in zip(event.application, event.tag_name, strict=True):
            if (job := self._by_index.get(int(application))) is not None:
                job.tag(self._name(tag))

    def _containers(self, event: events.Containers) -> None:
        rows = zip(
            event.container.tolist(),
            event.application.tolist(),
            event.priority.tolist(),
            event.event.tolist(),
            event.time_ms.tolist(),
            event.created_ms.tolist(),
            event.exit_status.tolist(),
            event.am.tolist(),
            event.capability.tolist(),
            strict=True,
        )
        for number, index, priority, step, time_ms, created_ms, exit_status, am, capability in rows:
            key = ContainerKey(number, created_ms)
            left = (job for job in self._ended_at_index.values() if job.has(key))
            job = self._by_index.get(index) or next(left, None)
            if job is None or step == ContainerEvent.RESIZED:
                continue  # it does not change the resources of a stage's containers
            ended = step == ContainerEvent.COMPLETED
            if am:
                job.am_exit_status = exit_status if ended else 0
            elif ended:
                job.end(key, exit_status, time_ms)
            else:
                allocated = step == ContainerEvent.ALLOCATED and not self._resuming
                job.run_container(Attempt(key, priority), capability, allocated=allocated)

    def _requests(self, event: events.Requests) -> None:
        for row in range(len(event.application)):
            if (job := self._by_index.get(int(event.application[row]))) is not None:
                job.ask(
                    int(event.key[row]),
                    int(event.priority[row]),
                    int(event.count[row]),
                    event.capability[row].tolist(),
                    self._now_ms,
                )

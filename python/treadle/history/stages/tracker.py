"""From the engine's events to jobs and stages, and to profiles of the jobs that have finished.

No socket, clock or file: fed with the events of each frame in order, it answers what it knows. Times are arguments.
Everything is bounded: what is beyond is counted in `StageTracker.untracked` and otherwise ignored.

A job as events change it: one YARN application, whatever its attempts.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, Replaces
from treadle.history.run import JobRun, RecurrenceKey, recurrence_key
from treadle.history.stages.stage import (
    WELL,
    Attempt,
    ContainerKey,
    Framework,
    StageId,
    StageState,
    outcome_of,
    stage_of,
)

_log = logging.getLogger(__name__)

STAGES_MAX: Final = 1000
TAGS_MAX: Final = 100
KEYS_MAX: Final = 10_000
"""Request keys of a job whose counts are remembered."""


class JobState:
    """One application."""

    def __init__(self, cluster_timestamp: int, id_: int, type_: str, *, whole: bool) -> None:
        self.id = f"application_{cluster_timestamp}_{id_:04d}"
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
        """Containers that were reported since the last snapshot began."""
        self._whole = whole
        """Was it seen from its start, without a gap?"""
        self._tags: list[str] = []
        self._hints_ms: dict[str, int] = {}
        """Duration of a task that the engine was given, by stage."""
        self._states: dict[int, StageState] = {}
        """By the first priority of its stage."""
        self._groups: dict[int, int] = {}
        self._counts: dict[int, tuple[int, int]] = {}
        """Priority and outstanding count by request key."""
        self._totals: Counter[int] = Counter()
        self._live: dict[ContainerKey, int] = {}

    def tag(self, tag: str) -> None:
        """Take a tag."""
        if tag not in self._tags and len(self._tags) < TAGS_MAX:
            self._tags.append(tag)

    def note_hint(self, stage: str, duration_ms: int) -> None:
        """Note the duration of a stage's tasks that the engine was given from earlier runs."""
        if len(self._hints_ms) < STAGES_MAX:
            self._hints_ms.setdefault(stage, duration_ms)

    @property
    def _only_masters_at_0(self) -> bool:
        """Does the framework never ask for a task at priority 0?"""
        return self.framework in (Framework.MAPREDUCE, Framework.TEZ)

    def _why_not(self) -> str:
        """Return why no run is made of the job, empty if one is."""
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
        """Return the stage that containers of a priority belong to."""
        return stage_of(self.framework, priority)

    def demand(self, priority: int) -> Mapping[str, int]:
        """Return what containers of the stage of a priority ask for; empty if none was asked for."""
        first = self._groups.get(priority)
        return {} if first is None else self._states[first].demand

    def key(self) -> RecurrenceKey:
        """Return what its runs have in common."""
        return recurrence_key(self.user, self.queue, self.type, self.name, self._tags)

    def has(self, key: ContainerKey) -> bool:
        """Does such a container run?"""
        return key in self._live

    def forget_asks(self) -> None:
        """Forget the asks: all are reported again, perhaps with other keys."""
        self._counts.clear()
        self._totals.clear()
        for state in self._states.values():
            state.forget_asks()

    def doubt(self) -> None:
        """Take that a snapshot begins: what it does not have has ended unseen (see `resume`)."""
        self.unconfirmed = True
        self._confirmed.clear()
        self.forget_asks()

    def ask(self, key: int, priority: int, count: int, capability: Sequence[int], now_ms: int) -> None:
        """Take the outstanding count of a request key, absolute."""
        if priority == 0 and (self.awaiting_am or self._only_masters_at_0):
            return  # the AM's own, whose priority Spark's executors have too
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
        """Take a container that runs: one just allocated, or one of which another step is the first to be seen."""
        self._confirmed.add(attempt.key)
        if attempt.priority == 0 and self._only_masters_at_0:
            return  # reported before the ResourceManager has marked it as the AM's
        state = self._state(attempt.priority)
        if state is None or attempt.key in self._live:
            return
        self._live[attempt.key] = attempt.priority
        if not state.demand:
            state.demand = dict(zip(self.resources, capability, strict=False))
        if allocated:
            state.allocate(attempt)
        else:
            self._whole = False
            state.found(attempt)

    def start(self, key: ContainerKey, time_ms: int) -> None:
        """Take that a container was launched."""
        if key in self._live:
            self._running(key).start(key, time_ms)

    def end(self, key: ContainerKey, exit_status: int, time_ms: int) -> None:
        """Take that a container ended."""
        if key in self._live:
            self._running(key).end(key, outcome_of(self.framework, exit_status), exit_status, time_ms)
            del self._live[key]
            self._confirmed.discard(key)

    def resume(self, now_ms: int) -> None:
        """Take that a snapshot is complete: what it did not have has ended unseen."""
        if self.unconfirmed:
            self.unconfirmed = self._whole = False
            self.gone_ms = now_ms if self.gone_ms is None else self.gone_ms
        for state in self._states.values():
            if state.lose(self._confirmed, now_ms):
                self._whole = False
        self._live = {key: priority for key, priority in self._live.items() if key in self._confirmed}

    def run(self) -> JobRun | None:
        """Return the finished job; None if it was not seen completely, or apparently failed."""
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
        """Return the stage of a priority, a new one at the first sight of it; None beyond `STAGES_MAX`."""
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

    def _running(self, key: ContainerKey) -> StageState:
        return self._states[self._groups[self._live[key]]]


JOBS_MAX: Final = 20_000
FINISHED_MAX: Final = 10_000
"""Runs that wait to be taken; the oldest go first."""

LINGER_MS: Final = 5_000
"""How long after an application attempt has gone its last containers, or another attempt, are waited for."""

E = TypeVar("E")


class StageTracker:
    """Jobs and stages of all applications. Not for several threads at a time."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._resources: tuple[str, ...] = ()
        self._queues: dict[int, str] = {}
        self._jobs: dict[tuple[int, int], JobState] = {}
        self._by_index: dict[int, JobState] = {}
        self._leaving: dict[tuple[int, int], JobState] = {}
        """Those of which an attempt has gone and no other has come yet."""
        self._left: dict[tuple[int, int], JobState] = {}
        """Those of which an attempt has gone."""
        self._finished: deque[JobRun] = deque(maxlen=FINISHED_MAX)
        self._resuming = False
        self._now_ms = 0
        self.untracked = 0
        """How often an application was reported beyond the limit, since all were followed."""

    def apply(self, frame: Iterable[events.Event], now_ms: int, *, complete: bool = True) -> None:
        """Take the events of a frame; ``complete`` is False while further parts of it follow."""
        self._now_ms = now_ms
        found = list(frame)
        for event in found:
            if isinstance(event, events.Snapshot):
                self._resume()
            elif isinstance(event, events.Names):
                self._names += event.texts
            elif isinstance(event, events.ResourceTypes):
                self._resources = event.names
            elif isinstance(event, events.Queues):
                self._queues = {
                    int(queue): self._name(path) for queue, path in zip(event.queue, event.path_name, strict=True)
                }
            elif isinstance(event, events.Applications):
                self._applications(event)
        for tags in _of(found, events.Tags):
            self._tags(tags)
        # A frame's counts are what is left after its allocations, though they come before them.
        for containers in _of(found, events.Containers):
            self._containers(containers)
        for requests in _of(found, events.Requests):
            self._requests(requests)
        if complete:
            self._complete()

    def job(self, application: int) -> JobState | None:
        """Return an application, by the shim's index; None if it is not known."""
        return self._by_index.get(application)

    def finished(self) -> list[JobRun]:
        """Return the jobs that have finished since the last call and were seen from start to end, in order."""
        runs = list(self._finished)
        self._finished.clear()
        return runs

    @property
    def is_full(self) -> bool:
        """Are there more applications than are followed?"""
        return self.untracked > 0 and len(self._jobs) >= JOBS_MAX

    @property
    def jobs(self) -> int:
        """How many jobs are followed."""
        return len(self._jobs)

    def _resume(self) -> None:
        """Begin a snapshot: jobs stay, by YARN's ids; those that it does not report have ended unseen."""
        self._names = []
        self._queues = {}
        self._by_index = {}
        self._resuming = True
        for job in self._jobs.values():
            job.doubt()

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
            self._left.pop(at, None)
            run = self._jobs.pop(at).run()
            if run is not None:
                self._finished.append(run)

    def _name(self, index: int) -> str:
        return self._names[index] if 0 <= index < len(self._names) else ""

    def _applications(self, event: events.Applications) -> None:
        for row in range(len(event.application)):
            index, at = int(event.application[row]), (int(event.cluster_timestamp[row]), int(event.id[row]))
            if event.state[row] == ApplicationState.MOVED:
                # it runs on, seen by another engine: what is known of it is no whole job
                self._by_index.pop(index, None)
                self._jobs.pop(at, None)
                self._left.pop(at, None)
                self._leaving.pop(at, None)
                continue
            if event.state[row] == ApplicationState.GONE:
                gone = self._by_index.pop(index, None)
                if gone is not None and gone.index == index:
                    gone.gone_ms = self._now_ms
                    self._leaving[at] = self._left[at] = gone
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
            event.node.tolist(),
            event.event.tolist(),
            event.time_ms.tolist(),
            event.created_ms.tolist(),
            event.exit_status.tolist(),
            event.am.tolist(),
            event.capability.tolist(),
            strict=True,
        )
        for number, index, priority, node, step, time_ms, created_ms, exit_status, am, capability in rows:
            key = ContainerKey(number, created_ms)
            job = self._by_index.get(index) or self._left_by(key)
            if job is None or step == ContainerEvent.RESIZED:
                continue  # what the containers of a stage ask for is not changed by it
            ended = step == ContainerEvent.COMPLETED
            if am:
                job.am_exit_status = exit_status if ended else 0
            elif ended:
                job.end(key, exit_status, time_ms)
            else:
                allocated = step == ContainerEvent.ALLOCATED and not self._resuming
                job.run_container(Attempt(key, priority, node), capability, allocated=allocated)
                if step == ContainerEvent.LAUNCHED:
                    job.start(key, time_ms)

    def _left_by(self, key: ContainerKey) -> JobState | None:
        """Return the job of a container whose application attempt has gone."""
        return next((job for job in self._left.values() if job.has(key)), None)

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


def _of(found: Iterable[object], kind: type[E]) -> list[E]:
    return [event for event in found if isinstance(event, kind)]

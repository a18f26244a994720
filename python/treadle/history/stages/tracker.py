"""From the engine's events to jobs and stages, and to profiles of the jobs that have finished.

No socket, clock or file: fed with the events of each frame in order, it answers what it knows. Times are arguments.
Everything is bounded: what is beyond is counted in `StageTracker.untracked` and otherwise ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeVar

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, Replaces
from treadle.history.run import JobRun
from treadle.history.stages.job import JobState
from treadle.history.stages.stage import Attempt, ContainerKey

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

"""Extracts cluster and jobs from a recording: arrivals, requests, and the duration of each container."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, NodeState
from treadle.history.stages import Framework, StageId, stage_of
from treadle.record.files import RecordingError, SettingsText
from treadle.record.reader import NOT_FROM_START, open_all
from treadle.wire.frames import Frame, FrameDecoder
from treadle.yarn.codes import KILLED_AFTER_APP_COMPLETION, KILLED_BY_APPMASTER, SUCCESS

JobId = tuple[int, int]
"""ID of an application: the ResourceManager's start time, and its number."""


class RecordedContainer(NamedTuple):
    """A successful container, or one still running at the end of the recording. Sorts by allocation."""

    created_ms: int
    number: int
    end_ms: int
    """When the ResourceManager recorded its end; the recording's end if it was still running."""
    with_job: bool
    """Whether it ended, for the ResourceManager, together with its application."""
    runs: bool = False
    node: str = ""


@dataclass(slots=True)
class RecordedStage:
    """A stage of a job."""

    demand: tuple[int, ...] = ()
    containers: list[RecordedContainer] = field(default_factory=list)
    first_ask_ms: int = -1
    asked: int = 0
    """Outstanding containers at the end of the recording."""

    @property
    def last_end_ms(self) -> int:
        """When its last container ended; -1 if none did."""
        return max((each.end_ms for each in self.containers if not each.runs), default=-1)


@dataclass(slots=True)
class RecordedJob:
    """An application. Times are the ResourceManager's."""

    id: JobId
    name: str
    type: str
    user: str
    queue: str
    priority: int
    submit_ms: int
    before: bool
    """Whether it existed at the start of the recording."""
    end_ms: int = -1
    """-1: it had not ended."""
    stages: dict[StageId, RecordedStage] = field(default_factory=dict)
    waits: bool = False
    """Whether it is submitted and not activated."""
    awaits_master: bool = False
    master: tuple[int, ...] = ()
    master_ms: int = -1
    """When its AM's container was allocated."""
    master_node: str = ""

    @property
    def framework(self) -> Framework:
        """The framework of the application."""
        return Framework.of(self.type)

    @property
    def first_ask_ms(self) -> int:
        """When it first requested a container other than its AM's; -1: never."""
        return min((each.first_ask_ms for each in self.stages.values() if each.first_ask_ms >= 0), default=-1)


@dataclass(slots=True)
class RecordedQueue:
    """A queue with its amounts in the default partition, by resource."""

    parent: int
    path: str
    ordering_policy: str
    priority: int
    guaranteed: tuple[int, ...] = ()
    maximum: tuple[int, ...] = ()
    am_limit: tuple[int, ...] = ()


@dataclass(slots=True)
class RecordedCluster:
    """The content of a recording."""

    resources: tuple[str, ...] = ()
    counted: tuple[bool, ...] = ()
    nodes: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """By name: rack and total."""
    queues: dict[int, RecordedQueue] = field(default_factory=dict)
    jobs: dict[JobId, RecordedJob] = field(default_factory=dict)
    begin_ms: int = 0
    end_ms: int = 0
    gaps_ms: list[int] = field(default_factory=list)
    """Times between frames."""
    limits: list[int] = field(default_factory=list)
    """Maximum numbers of proposals in the answers."""
    node_heartbeat_ms: int = 1000
    settings: SettingsText | None = None
    engine: str = ""
    """Name of one of several engines; empty: the first or only one."""
    place: Path = Path()
    """The segment that these settings are from."""
    lost: int = 0
    """Containers that failed, were preempted, lost or released; repeated work is in other containers."""
    labels: bool = False
    user_limits: bool = False
    settings_changed: bool = False
    missing: bool = False
    """Whether a segment is missing or unreadable."""
    notes: list[str] = field(default_factory=list)


def read_recorded(files: Sequence[Path], ticks: int | None = None) -> RecordedCluster:
    """Return cluster and jobs of segments; with ``ticks`` only of this many first ticks.

    Raises:
        RecordingError: one is not a recording, or they contain no job.
        WireError: a frame is malformed.
    """
    looker = _RecordingReader()
    seen = looker.seen
    looked, missing = 0, list[str]()
    for recorded in open_all(files, missing):
        if ticks is not None and looked == ticks:
            break
        if seen.settings is None:
            seen.settings, seen.engine, seen.place = recorded.settings, recorded.segment.engine, recorded.path
            seen.notes += [] if recorded.from_start else [f"{recorded.path.name}: {NOT_FROM_START}"]
        if seen.jobs and not recorded.follows:
            seen.notes.append(f"{recorded.path.name}: frames are missing before it: what happened then is not known")
            looker.forget_running()
        decoder = FrameDecoder()
        for tick in recorded.ticks:
            if ticks is not None and looked == ticks:
                break
            looked += 1
            seen.settings_changed |= tick.reading is not None and not tick.reading.refusal
            looker.read(decoder.decode(tick.frame), decoder.texts)
        seen.notes += [f"{recorded.path.name}: {note}" for note in recorded.notes]
    seen.missing = bool(missing)
    seen.notes[:0] = missing
    if not seen.jobs and ticks is None:
        raise RecordingError("there is no job in the recording")
    looker.end()
    return seen


class _Running(NamedTuple):
    job: JobId
    number: int
    created_ms: int


class _RecordingReader:
    """Processes frames. Jobs and running containers outlive a snapshot, indices do not."""

    def __init__(self) -> None:
        self.seen = RecordedCluster()
        self._texts: Sequence[str] = ()
        self._job: dict[int, RecordedJob] = {}
        self._asked: dict[tuple[int, int], tuple[StageId, int]] = {}
        """By application and request key: the stage, and the number of requested containers."""
        self._nodes: dict[int, str] = {}
        self._running: dict[_Running, tuple[StageId, str]] = {}
        """With the name of the node."""
        self._before: dict[_Running, tuple[StageId, str]] | None = None
        """Containers running before an incomplete snapshot: those that it lacks have ended."""
        self._now_ms = 0

    def read(self, frame: Frame, texts: Sequence[str]) -> None:
        """Process a frame."""
        header, seen = frame.header, self.seen
        if 0 < self._now_ms < header.rm_time_ms:
            seen.gaps_ms.append(header.rm_time_ms - self._now_ms)
        seen.limits.append(header.limit)
        first = not seen.begin_ms
        self._texts, self._now_ms = texts, header.rm_time_ms
        seen.begin_ms = seen.begin_ms or self._now_ms
        seen.end_ms = max(seen.end_ms, self._now_ms)
        for event in frame.events:
            match event:
                case events.Snapshot():
                    self._job, self._asked = {}, {}
                    self._before = {**(self._before or {}), **self._running}
                    self._running = {}
                case events.Applications():
                    self._applications(event, begins=first and header.snapshot)
                case events.Requests():
                    self._requests(event)
                case events.Containers():
                    self._containers(event)
                case _:
                    self._cluster(event)
        if self._before is not None and not header.more:
            for each, (stage, node) in self._before.items():
                if each not in self._running:
                    self._ended(seen.jobs[each.job], stage, each, self._now_ms, node)
            self._before = None

    def forget_running(self) -> None:
        """Set all running containers to ended at an unknown time."""
        self.seen.lost += len(self._running)
        self._running = {}

    def end(self) -> None:
        """Record running and requested containers at the end of the recording."""
        for each, (stage, node) in self._running.items():
            container = RecordedContainer(each.created_ms, each.number, self.seen.end_ms, False, True, node)
            self._stage(self.seen.jobs[each.job], stage).containers.append(container)
        for (app, _), (stage, count) in self._asked.items():
            if app in self._job:
                self._stage(self._job[app], stage).asked += count

    def _cluster(self, event: events.Event) -> None:
        seen, texts = self.seen, self._texts
        match event:
            case events.ResourceTypes():
                seen.resources, seen.counted = event.names, tuple(map(bool, event.counted.tolist()))
            case events.Settings():
                text = event.values.get("nm-heartbeat-ms", "")
                seen.node_heartbeat_ms = int(text) if text.isdigit() else seen.node_heartbeat_ms
            case events.Nodes():
                for at, name in enumerate(event.name_name.tolist()):
                    self._nodes[int(event.node[at])] = texts[name]
                    if event.state[at] == NodeState.USABLE:
                        seen.nodes[texts[name]] = texts[event.rack_name[at]], tuple(event.total[at].tolist())
                        seen.labels |= bool(texts[event.partition_name[at]])
            case events.Queues():
                self._queues(event)
            case events.QueueLimits():
                self._limits(event)
            case events.Users():
                self._users(event)

    def _limits(self, event: events.QueueLimits) -> None:
        for at, queue in enumerate(event.queue.tolist()):
            queue_state = self.seen.queues.get(queue)
            if queue_state is not None and not self._texts[event.partition_name[at]]:
                queue_state.guaranteed = tuple(event.guaranteed[at].tolist())
                queue_state.maximum = tuple(event.maximum[at].tolist())
                queue_state.am_limit = tuple(event.am_limit[at].tolist())

    def _users(self, event: events.Users) -> None:
        for at, queue in enumerate(event.queue.tolist()):
            queue_state = self.seen.queues.get(queue)
            if queue_state is not None and queue_state.maximum and 0 <= event.limit[at][0] < queue_state.maximum[0]:
                self.seen.user_limits = True

    def _queues(self, event: events.Queues) -> None:
        for at, queue in enumerate(event.queue.tolist()):
            before = self.seen.queues.get(queue)
            queue_state = RecordedQueue(
                int(event.parent[at]),
                self._texts[event.path_name[at]],
                self._texts[event.ordering_policy_name[at]],
                int(event.priority[at]),
            )
            if before is not None and before.path == queue_state.path:
                amounts = (before.guaranteed, before.maximum, before.am_limit)
                queue_state.guaranteed, queue_state.maximum, queue_state.am_limit = amounts
            self.seen.queues[queue] = queue_state

    def _applications(self, event: events.Applications, *, begins: bool) -> None:
        texts, seen = self._texts, self.seen
        for at, app in enumerate(event.application.tolist()):
            if event.state[at] in {ApplicationState.GONE, ApplicationState.MOVED}:
                self._gone(app)
                continue
            id_ = int(event.cluster_timestamp[at]), int(event.id[at])
            if id_ not in seen.jobs:
                queue = seen.queues.get(int(event.queue[at]))
                submit_ms = int(event.submit_time_ms[at])
                seen.jobs[id_] = RecordedJob(
                    id_,
                    texts[event.name_name[at]],
                    texts[event.type_name[at]],
                    texts[event.user_name[at]],
                    "" if queue is None else queue.path,
                    int(event.priority[at]),
                    max(submit_ms, seen.begin_ms),
                    begins and submit_ms < self._now_ms,
                )
            job = self._job[app] = seen.jobs[id_]
            job.end_ms = -1  # another attempt of a removed application
            job.waits = event.state[at] == ApplicationState.WAITING
            job.awaits_master = bool(event.awaiting_am[at])

    def _gone(self, app: int) -> None:
        """Remove an application; its running containers end with it, which frames need not report."""
        gone = self._job.pop(app, None)
        for key in [key for key in self._asked if key[0] == app]:
            del self._asked[key]
        if gone is None:
            return
        gone.end_ms = self._now_ms
        for each in [each for each in self._running if each.job == gone.id]:
            stage, node = self._running.pop(each)
            self._ended(gone, stage, each, self._now_ms, node, with_job=True)

    def _stage(self, job: RecordedJob, at: StageId) -> RecordedStage:
        return job.stages.setdefault(at, RecordedStage())

    def _requests(self, event: events.Requests) -> None:
        for at, app in enumerate(event.application.tolist()):
            job, key = self._job.get(app), (app, int(event.key[at]))
            priority, count = int(event.priority[at]), int(event.count[at])
            if job is None or job.awaits_master or _is_master(job, priority):
                continue  # the request is for its AM's container
            if count <= 0:
                self._asked.pop(key, None)
                continue
            stage_id = stage_of(job.framework, priority)
            stage = self._stage(job, stage_id)
            stage.demand = tuple(event.capability[at].tolist())
            stage.first_ask_ms = self._now_ms if stage.first_ask_ms < 0 else stage.first_ask_ms
            self._asked[key] = stage_id, count

    def _containers(self, event: events.Containers) -> None:
        columns = (event.application, event.container, event.event, event.time_ms, event.created_ms, event.node)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for at, (app, number, step, time_ms, created_ms, on) in enumerate(rows):
            job, priority, demand = self._job.get(app), int(event.priority[at]), tuple(event.capability[at].tolist())
            if job is None:
                continue
            # an AM's container is reported before the ResourceManager has marked it
            first = job.master_ms < 0 and job.first_ask_ms < 0 and not job.before
            if event.am[at] or first or _is_master(job, priority) or created_ms == job.master_ms:
                if job.master_ms < 0:
                    job.master, job.master_ms, job.master_node = demand, created_ms, self._nodes.get(on, "")
                continue
            stage_id, key = stage_of(job.framework, priority), _Running(job.id, number, created_ms)
            stage = self._stage(job, stage_id)
            stage.demand = stage.demand or demand
            if step != ContainerEvent.COMPLETED:
                self._running[key] = stage_id, self._nodes.get(on, "")
                continue
            _, node = self._running.pop(key, (stage_id, self._nodes.get(on, "")))
            status = int(event.exit_status[at])
            well = status in {SUCCESS, KILLED_AFTER_APP_COMPLETION}
            if well or (status == KILLED_BY_APPMASTER and job.framework is not Framework.MAPREDUCE):
                self._ended(job, stage_id, key, time_ms, node, with_job=status == KILLED_AFTER_APP_COMPLETION)
            else:
                self.seen.lost += 1

    def _ended(
        self, job: RecordedJob, at: StageId, key: _Running, end_ms: int, node: str, *, with_job: bool = False
    ) -> None:
        container = RecordedContainer(key.created_ms, key.number, end_ms, with_job, node=node)
        self._stage(job, at).containers.append(container)


def _is_master(job: RecordedJob, priority: int) -> bool:
    """Return whether only the framework's AMs have this priority."""
    return priority == 0 and job.framework in (Framework.MAPREDUCE, Framework.TEZ)

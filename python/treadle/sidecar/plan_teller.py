"""What application masters reported of their DAGs, as events for the engine; and keys and nodes for their listener.

On the thread that decides: it only looks at what is there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from treadle import events
from treadle.events import ApplicationState, Event, NodeState, PlanRanks, Replaces, Samples, TaskEstimates
from treadle.plans.desk import Amounts, PlanDesk, VertexView
from treadle.plans.keys import Attempt, KeyRing
from treadle.plans.stages import StageDesk
from treadle.profiles.recurrence import recurrence_key
from treadle.wire.decoder import Frame

_log = logging.getLogger(__name__)

SPARK: Final = "SPARK"
TYPES: Final = ("TEZ", SPARK)
"""The application types whose masters may ask for plans, or report stages."""

EVERY_MS: Final = 500
"""What changes of a DAG as its tasks end is told so often."""

_NOTHING: Final = VertexView(0, -1.0, -1, -1, -1)


@dataclass(eq=False)
class _Application:
    attempt: Attempt
    priorities: dict[int, int] = field(default_factory=dict)
    """By request key."""
    told: dict[int, VertexView] = field(default_factory=dict)
    """By request key."""
    version: int = 0
    told_ms: int = 0
    fresh: bool = False
    """It has request keys that were not looked at."""


class PlanTeller:
    """Tells an engine which request keys are which vertices of a plan, and how long their tasks take."""

    def __init__(self, desk: PlanDesk, keys: KeyRing, stages: StageDesk) -> None:
        self._desk = desk
        self._stages = stages
        self._keys = keys
        self._names: list[str] = []
        self._resources: tuple[tuple[int, str], ...] = ()
        self._queues: dict[int, str] = {}
        self._nodes: dict[int, Amounts] = {}
        self._applications: dict[int, _Application] = {}
        self._before: set[Attempt] = set()
        """Attempts that ran before a snapshot of which not all has come yet."""
        self._broken = False
        """Something went wrong; until the next snapshot nothing is told."""

    def tell(self, frame: Frame) -> Sequence[Event]:
        """Return what the engine is to be told after this frame, and before it decides."""
        self._broken = self._broken and not frame.header.snapshot
        if self._broken:
            return ()
        try:
            return self._tell(frame)
        except Exception:  # plans are worth less than decisions
            _log.exception("the engine is told nothing of plans until the next snapshot")
            self._broken = True
            return ()

    def _tell(self, frame: Frame) -> Sequence[Event]:
        for event in frame.events:
            self._follow(event)
        if frame.header.more:
            return ()
        for attempt in self._before.difference(known.attempt for known in self._applications.values()):
            self._part(attempt)
        self._before.clear()
        rows: list[tuple[int, int, VertexView]] = []
        for index, application in self._applications.items():
            self._changes(index, application, frame.header.rm_time_ms, rows)
        return _events(rows) if rows else ()

    def learn(self, samples: Samples) -> None:
        """Take what the engine's pilots have said, which is no concern of plans."""

    def forget(self) -> None:
        """Take that the engine fails over and over: nothing of what is known now is told again."""
        for application in self._applications.values():
            application.priorities.clear()

    def summary(self) -> str:
        """Return in a few words how many DAGs are known."""
        planned = sum(1 for application in self._applications.values() if application.version)
        return f"{planned} DAGs by their application masters" if planned else ""

    def keys_for(self) -> Sequence[str]:
        """Return the types of the applications whose masters may ask for plans."""
        return TYPES

    def _follow(self, event: Event) -> None:
        match event:
            case events.Snapshot():
                self._names, self._queues, self._nodes = [], {}, {}
                self._before |= {known.attempt for known in self._applications.values()}
                self._applications = {}
            case events.Names():
                self._names += event.texts
            case events.ResourceTypes():
                counted = zip(event.names, event.counted.tolist(), strict=True)
                self._resources = tuple((at, name) for at, (name, counts) in enumerate(counted) if counts)
            case events.Queues():
                paths = zip(event.queue.tolist(), event.path_name.tolist(), strict=True)
                self._queues = {queue: self._names[path] for queue, path in paths}
            case events.Nodes():
                self._follow_nodes(event)
            case events.Applications():
                self._follow_applications(event)
            case events.Requests():
                self._follow_requests(event)
            case events.AttemptKeys():
                self._take_keys(event)
            case _:
                return

    def _follow_nodes(self, event: events.Nodes) -> None:
        changed: dict[int, Amounts | None] = {}
        for node, state, total in zip(event.node.tolist(), event.state.tolist(), event.total.tolist(), strict=True):
            gone = state == NodeState.GONE
            has = None if gone else tuple((name, float(total[at])) for at, name in self._resources)
            if has != changed.get(node, self._nodes.get(node)):
                changed[node] = has
        # Nearly all frames tell of what is free alone.
        if changed:
            self._nodes = {node: has for node, has in (self._nodes | changed).items() if has is not None}
            self._desk.machines(self._nodes)

    def _follow_applications(self, event: events.Applications) -> None:
        for row, index in enumerate(event.application.tolist()):
            if event.state[row] == ApplicationState.GONE:
                gone = self._applications.pop(index, None)
                if gone is not None:
                    self._part(gone.attempt)
                continue
            type_ = self._names[event.type_name[row]].upper()
            if type_ not in TYPES:
                continue
            known = self._applications.get(index)
            if known is None:
                attempt = Attempt(int(event.cluster_timestamp[row]), int(event.id[row]), int(event.attempt[row]))
                known = self._applications[index] = _Application(attempt)
            elif event.replaces[row] & Replaces.REQUESTS:
                known.priorities.clear()
                known.told.clear()
            if type_ == SPARK:
                self._stages.meet(known.attempt)
                continue
            user, queue = self._names[event.user_name[row]], self._queues.get(int(event.queue[row]), "")
            self._desk.meet(known.attempt, recurrence_key(user, queue, type_, ""))

    def _part(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""
        self._desk.part(attempt)
        self._stages.part(attempt)
        self._keys.forget(attempt)

    def _follow_requests(self, event: events.Requests) -> None:
        for row in np.flatnonzero(np.isin(event.application, list(self._applications))).tolist():
            application = self._applications[int(event.application[row])]
            key, priority = int(event.key[row]), int(event.priority[row])
            if application.priorities.get(key) != priority:
                application.priorities[key] = priority
                application.fresh = True

    def _take_keys(self, event: events.AttemptKeys) -> None:
        for row, index in enumerate(event.application.tolist()):
            application = self._applications.get(index)
            if application is not None:
                words = (event.word0, event.word1, event.word2, event.word3)
                key = b"".join(int(word[row]).to_bytes(8, "little", signed=True) for word in words)
                self._keys.tell(application.attempt, int(event.number[row]), key)

    def _changes(
        self, index: int, application: _Application, now_ms: int, rows: list[tuple[int, int, VertexView]]
    ) -> None:
        """Add what is to be told of an application."""
        version = self._desk.version(application.attempt)
        if version == application.version and not application.fresh:
            return
        ended = version == 0
        if not (application.fresh or ended or abs(now_ms - application.told_ms) >= EVERY_MS):
            return
        application.version, application.told_ms, application.fresh = version, now_ms, False
        view = self._desk.view(application.attempt)
        by_priority = {vertex.low - above: vertex for vertex in (view.vertices if view else ()) for above in range(2)}
        by_priority |= {vertex.low - 2: _again(vertex) for vertex in (view.vertices if view else ())}
        for key, priority in application.priorities.items():
            # What a key meant in the DAG before is taken back.
            vertex = by_priority.get(priority, _NOTHING if key in application.told else None)
            if vertex is not None and application.told.get(key) != vertex:
                application.told[key] = vertex
                rows.append((index, key, vertex))


def _again(vertex: VertexView) -> VertexView:
    """Return what the engine is to know of the tasks of a vertex that have failed: a plan wants them at once."""
    return vertex if vertex.score < 0 else vertex._replace(score=1.0)


def _events(rows: Sequence[tuple[int, int, VertexView]]) -> Sequence[Event]:
    application = np.array([row[0] for row in rows], np.int32)
    key = np.array([row[1] for row in rows], np.int32)
    vertices = [row[2] for row in rows]
    return (
        PlanRanks(application, key, np.array([vertex.score for vertex in vertices], np.float64)),
        TaskEstimates(
            application,
            key,
            np.array([vertex.duration_ms for vertex in vertices], np.int64),
            np.array([vertex.deviation_ms for vertex in vertices], np.int64),
            np.array([vertex.tasks_left for vertex in vertices], np.int32),
        ),
    )

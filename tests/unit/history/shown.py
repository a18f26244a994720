"""Events as a ResourceManager would show them: applications, asks and containers, a frame at a time."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.unit.history.views import Stage, stages_of

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, array_fields
from treadle.history.profile import JobRun
from treadle.history.stages import LINGER_MS, StageTracker

CLUSTER = 1_700_000_000_000
MAP, REDUCE, FAILED_MAP = 20, 10, 5
_TYPES = {
    "application": np.int32,
    "id": np.int32,
    "container": np.int64,
    "state": np.uint8,
    "event": np.uint8,
    "am": np.uint8,
    "by_treadle": np.uint8,
    "replaces": np.uint8,
    "awaiting_am": np.uint8,
}


def columns(kind: type[Any], rows: list[dict[str, Any]]) -> Any:
    """Return an event of rows; what a row lacks is 0."""
    made = {}
    for field in dataclasses.fields(kind):
        values = [row.get(field.name, [1024, 1] if field.name == "capability" else 0) for row in rows]
        wide = field.name.endswith("_ms") or field.name in {"cluster_timestamp", "capability", "allocation_request_id"}
        made[field.name] = np.array(values, _TYPES.get(field.name, np.int64 if wide else np.int32))
    return kind(**made)


class Shown:
    """A ResourceManager's events, sent to a tracker."""

    def __init__(self, now_ms: int = CLUSTER) -> None:
        self.tracker = StageTracker()
        self.now_ms = now_ms
        self._names = ["", "root.default", "ann"]
        self._rows: dict[type[Any], list[dict[str, Any]]] = {}
        self._counts: dict[tuple[int, int], int] = {}
        self._containers: dict[tuple[int, int], dict[str, Any]] = {}
        self._applications: dict[int, dict[str, Any]] = {}
        self._told: list[Any] = []
        self.snapshot()
        self.frame(0)

    def snapshot(self) -> None:
        """Tell all anew with the next frame."""
        types = events.ResourceTypes(
            ("memory-mb", "vcores"), ("Mi", ""), np.ones(2, np.uint8), np.zeros(2, np.int64), np.zeros(2, np.int64)
        )
        queue = columns(events.Queues, [{"queue": 0, "path_name": 1, "leaf": 1}])
        self._told = [events.Snapshot(1), events.Names(tuple(self._names)), types, queue]
        for row in self._applications.values():
            self._row(events.Applications, row)
        for (application, key), count in self._counts.items():
            self.ask(key, count, application)
        for row in self._containers.values():
            self._row(events.Containers, row)

    def application(self, index: int = 0, type_: str = "MAPREDUCE", name: str = "load 7", **row: Any) -> None:
        """Tell of an application."""
        for text in (type_, name):
            if text not in self._names:
                self._names.append(text)
                self._told.append(events.Names((text,)))
        self._applications[index] = {
            "application": index,
            "cluster_timestamp": CLUSTER,
            "id": index + 1,
            "attempt": 1,
            "name_name": self._names.index(name),
            "type_name": self._names.index(type_),
            "user_name": 2,
            "state": ApplicationState.ACTIVE,
            "submit_time_ms": self.now_ms,
            **row,
        }
        self._row(events.Applications, self._applications[index])

    def ask(self, priority: int, count: int, application: int = 0) -> None:
        """Tell an outstanding count; the key is the priority."""
        self._counts[application, priority] = count
        row = {"application": application, "key": priority, "priority": priority, "count": count}
        self._row(events.Requests, row)

    def allocate(self, *containers: int, priority: int = MAP, application: int = 0, am: bool = False) -> None:
        """Tell of containers that were allocated, and of the counts that are left."""
        for container in containers:
            row = {
                "container": container,
                "application": application,
                "priority": priority,
                "node": container % 3,
                "event": ContainerEvent.ALLOCATED,
                "time_ms": self.now_ms,
                "created_ms": self.now_ms,
                "am": am,
            }
            self._containers[application, container] = row
            self._row(events.Containers, row)
        if (application, priority) in self._counts:
            self.ask(priority, max(0, self._counts[application, priority] - len(containers)), application)

    def end(self, *containers: int, exit_status: int = 0, application: int = 0, row_application: int = 0) -> None:
        """Tell that containers ended."""
        for container in containers:
            row = self._containers.pop((application, container))
            ended = {"event": ContainerEvent.COMPLETED, "time_ms": self.now_ms, "exit_status": exit_status}
            self._row(events.Containers, {**row, **ended, "application": row_application or application})

    def gone(self, application: int = 0) -> None:
        """Tell that an application has gone."""
        row = self._applications.pop(application)
        self._row(events.Applications, {**row, "state": ApplicationState.GONE})

    def finished(self) -> list[JobRun]:
        """Let application 0 go, and wait for what comes late; return the runs that have ended."""
        self.gone()
        self.frame(LINGER_MS)
        self.frame()
        return self.tracker.finished()

    def frame(self, later_ms: int = 1000) -> tuple[Stage, ...]:
        """Send the events, and let time go on; returns the stages of application 0."""
        order = (events.Applications, events.Requests, events.Containers)
        made = [columns(kind, self._rows[kind]) for kind in order if kind in self._rows]
        self.tracker.apply([*self._told, *made], self.now_ms)
        self._told, self._rows = [], {}
        self.now_ms += later_ms
        return stages_of(self.tracker, 0)

    def _row(self, kind: type[Any], row: dict[str, Any]) -> None:
        self._rows.setdefault(kind, []).append(row)


def recorded(path: Path) -> list[tuple[int, list[events.Event]]]:
    """Return frames that were written down as JSON, with the ResourceManager's time of each."""
    frames = []
    for time_ms, told in json.loads(path.read_text()):
        made: list[events.Event] = []
        for name, fields in told:
            kind = getattr(events, name)
            arrays = {field.name: field.dtype for field in array_fields(kind)}
            values = {
                field: np.array(value, arrays[field]) if field in arrays else value for field, value in fields.items()
            }
            made.append(kind(**values))
        frames.append((time_ms, made))
    return frames

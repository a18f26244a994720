"""Events as a ResourceManager would show them: applications, asks and containers, a frame at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.unit.history.views import Stage, stages_of

from treadle import events
from treadle.engine.testing import StringTable, resource_types, rows
from treadle.events import ApplicationState, ContainerEvent, array_fields
from treadle.history.profile import JobRun
from treadle.history.stages import LINGER_MS, StageTracker

CLUSTER = 1_700_000_000_000
MAP, REDUCE, FAILED_MAP = 20, 10, 5


class Shown:
    """A ResourceManager's events, sent to a tracker."""

    def __init__(self, now_ms: int = CLUSTER) -> None:
        self.tracker = StageTracker()
        self.now_ms = now_ms
        self._texts = StringTable()
        self._rows: dict[type[Any], list[dict[str, Any]]] = {}
        self._counts: dict[tuple[int, int], int] = {}
        self._containers: dict[tuple[int, int], dict[str, Any]] = {}
        self._applications: dict[int, dict[str, Any]] = {}
        self._told: list[Any] = []
        self.snapshot()
        self.frame(0)

    def snapshot(self) -> None:
        """Tell all anew with the next frame."""
        self._texts.again()
        queue = rows(events.Queues, self._texts, [{"queue": 0, "path_name": "root.default", "leaf": 1}])
        types = resource_types(("memory-mb", "vcores"), (1, 1))
        self._told = [events.Snapshot(1), self._texts.drain(), types, queue]
        for row in self._applications.values():
            self._row(events.Applications, row)
        for (application, key), count in self._counts.items():
            self.ask(key, count, application)
        for row in self._containers.values():
            self._row(events.Containers, row)

    def application(self, index: int = 0, type_: str = "MAPREDUCE", name: str = "load 7", **row: Any) -> None:
        """Tell of an application."""
        self._applications[index] = {
            "application": index,
            "cluster_timestamp": CLUSTER,
            "id": index + 1,
            "attempt": 1,
            "name_name": name,
            "type_name": type_,
            "user_name": "ann",
            "state": ApplicationState.ACTIVE,
            "submit_time_ms": self.now_ms,
            **row,
        }
        self._row(events.Applications, self._applications[index])

    def ask(self, priority: int, count: int, application: int = 0) -> None:
        """Tell an outstanding count; the key is the priority."""
        self._counts[application, priority] = count
        row = {"application": application, "key": priority, "priority": priority, "count": count}
        self._row(events.Requests, row | {"capability": [1024, 1]})

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
                "capability": [1024, 1],
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
        made = [rows(kind, self._texts, self._rows[kind]) for kind in order if kind in self._rows]
        self.tracker.apply([*self._told, self._texts.drain(), *made], self.now_ms)
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

"""What a reader of the simulated RM's frames knows: each event folded into rows by key, names as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.events import ApplicationState, ContainerEvent, Event

KEYS: Final[dict[type[Any], tuple[str, ...]]] = {
    events.QueueLimits: ("queue",),
    events.Nodes: ("node",),
    events.Applications: ("application",),
    events.ApplicationUsage: ("application",),
    events.Requests: ("application", "key"),
    events.Localities: ("application", "key", "name_name"),
    events.Containers: ("container",),
}

Row = dict[str, Any]


class ReaderView:
    """The rows of one reader, by event and key; scores of plans by application and key."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {}
        self.scores: dict[tuple[int, int], float] = {}
        self.snapshots = 0
        self._texts: list[str] = []

    def table(self, kind: type[Any]) -> dict[tuple[Any, ...], Row]:
        """Return the rows of an event."""
        return self.tables.setdefault(kind.__name__, {})

    def known(self) -> dict[str, dict[tuple[Any, ...], Row]]:
        """Return the tables that have rows."""
        return {name: table for name, table in self.tables.items() if table}

    def apply(self, frame: Sequence[Event]) -> None:
        """Take a frame."""
        for event in frame:
            if isinstance(event, events.Snapshot):
                self.tables = {}
                self.scores = {}
                self._texts = []
                self.snapshots += 1
            elif isinstance(event, events.Names):
                event.into(self._texts)
            elif isinstance(event, events.PlanRanks):
                rows = zip(event.application.tolist(), event.key.tolist(), event.score.tolist(), strict=True)
                self.scores.update({(app, key): score for app, key, score in rows})
            elif type(event) in KEYS:
                for row in self._rows(event):
                    self._take(type(event), row)

    def _rows(self, event: Event) -> list[Row]:
        columns = {field.name: np.asarray(getattr(event, field.name)).tolist() for field in fields(event)}
        for name, values in columns.items():
            if name.endswith("_name"):
                columns[name] = [self._texts[index] for index in values]
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _take(self, kind: type[Any], row: Row) -> None:
        key = tuple(row[name] for name in KEYS[kind])
        table = self.table(kind)
        if kind is events.Containers and row["application"] < 0:
            assert key not in table
        elif kind is events.Containers and row["event"] == ContainerEvent.COMPLETED:
            del table[key]
        elif kind is events.Localities and row["count"] == 0:
            table.pop(key, None)
        elif kind is events.Applications and row["state"] in (ApplicationState.GONE, ApplicationState.MOVED):
            table.pop(key, None)
            containers = self.table(events.Containers)
            for each in [each for each, held in containers.items() if held["application"] == row["application"]]:
                del containers[each]
            self.table(events.ApplicationUsage).pop(key, None)
            self._drop(events.Requests, key)
            self._drop(events.Localities, key)
        elif kind is events.Requests and row["count"] == 0:
            table.pop(key, None)
            self._drop(events.Localities, key)
        else:
            table[key] = row

    def _drop(self, kind: type[Any], key: tuple[Any, ...]) -> None:
        table = self.table(kind)
        for each in [each for each in table if each[: len(key)] == key]:
            del table[each]

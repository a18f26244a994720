"""Rows of one kind of event, each with the version of its last change."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.events.columns import I64, array_fields

Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.integer]

NEW: Final = -1
"""The version up to which somebody has read who has read nothing."""

_NONE: Final[Places] = np.zeros(0, np.int64)
_DROPPED_MIN: Final = 64


class Rows:
    """The rows of an event by their keys: columns, versions, and which of them are live.

    One key column that is an index is the row's place; other keys have their places in a dictionary. A row that is not
    live stays until all who read it have read that.
    """

    def __init__(self, kind: Any, resources: int, *keys: str, zero: str = "") -> None:
        """Begin empty.

        Args:
            kind: the type of the event
            resources: columns of an amount
            keys: the columns that say which row it is
            zero: the column that is 0 in a row that is not live; without one rows become so by `kill` alone
        """
        self.kind, self._keys, self.zero = kind, keys, zero
        self.columns: dict[str, npt.NDArray[Any]] = {}
        for field in array_fields(kind):
            wide = field.column is not None and field.column.type == "R*i64"
            self.columns[field.name] = np.zeros((0, resources) if wide else 0, field.dtype)
        self.version: I64 = np.zeros(0, np.int64)
        self.live: Bools = np.zeros(0, bool)
        self.newest = 0
        self._places: dict[tuple[int, ...], int] = {}
        self._killed = False

    def __len__(self) -> int:
        """Return the number of places, more than there are rows."""
        return len(self.version)

    def find(self, *key: int) -> int | None:
        """Return the place of a live row, by a key in the dictionary; None if there is none."""
        at = self._places.get(key)
        return at if at is not None and self.live[at] else None

    def has(self, *key: int) -> bool:
        """Say whether a row is live, by a key in the dictionary."""
        return self.find(*key) is not None

    def cover(self, rows: int) -> None:
        """Make room for ``rows`` rows; it grows by half at least."""
        more = rows - len(self)
        if more > 0:
            more = max(more, len(self) // 2, 16)
            for name, column in self.columns.items():
                self.columns[name] = np.concatenate([column, np.zeros((more, *column.shape[1:]), column.dtype)])
            self.version = np.append(self.version, np.zeros(more, np.int64))
            self.live = np.append(self.live, np.zeros(more, bool))

    def put(self, event: Any, version: int, *names: str) -> Places:
        """Take rows, of several with one key the last; return their places. ``names`` are the columns, else all."""
        at = self._find(event)
        for name in names or self.columns:
            self.columns[name][at] = getattr(event, name)
        self.version[at] = version
        self.live[at] = self.columns[self.zero][at] > 0 if self.zero else True
        self._killed |= bool(self.zero)
        self.newest = version
        return at

    def _find(self, event: Any) -> Places:
        keys = [getattr(event, name) for name in self._keys]
        if len(keys) == 1:
            self.cover(int(keys[0].max()) + 1)
            return np.array(keys[0])
        places = self._places
        found = [places.setdefault(key, len(places)) for key in zip(*(key.tolist() for key in keys), strict=True)]
        self.cover(len(places))
        return np.array(found)

    def kill(self, at: Places, version: int) -> None:
        """Let rows be live no more."""
        if len(at):
            self.live[at] = False
            self.version[at] = version
            if self.zero:
                self.columns[self.zero][at] = 0
            self._killed, self.newest = True, version

    def newer(self, version: int) -> Places:
        """Return the places of rows that changed after a version; after `NEW` those of all live rows."""
        if version == NEW:
            return np.flatnonzero(self.live)
        return _NONE if self.newest <= version else np.flatnonzero(self.version > version)

    def of(self, column: str, wanted: Bools) -> Places:
        """Return the places of live rows whose index in a column is wanted."""
        return np.flatnonzero(self.live & wanted[self.columns[column]])

    def event(self, at: Places, **columns: Any) -> Any:
        """Return some rows as an event, some of its columns given."""
        return self.kind(**{name: column[at] for name, column in self.columns.items()} | columns)

    def part(self, event: Any, at: Any) -> Any:
        """Return some rows of an event that may have more columns than the table."""
        return self.kind(**{name: np.array(getattr(event, name)[at]) for name in self.columns})

    def drop(self, version: int) -> None:
        """Let the places be others' of rows that are not live, and were so at a version, if they are many."""
        if not self._killed or len(self._keys) == 1:
            return
        size = len(self._places)
        dead = ~self.live[:size] & (self.version[:size] <= version)
        count = int(np.count_nonzero(dead))
        if count < max(_DROPPED_MIN, size // 2):
            return
        kept = np.flatnonzero(~dead)
        self.columns = {name: column[kept] for name, column in self.columns.items()}
        self.version, self.live = self.version[kept], self.live[kept]
        keys = (self.columns[name].tolist() for name in self._keys)
        self._places = {key: at for at, key in enumerate(zip(*keys, strict=True))}
        self._killed = not bool(self.live.all())

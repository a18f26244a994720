"""Time series, ended jobs and problems, in one SQLite file of bounded size.

Each series is stored at three resolutions, finer ones for a shorter time: a row is the mean over its interval.

`Conditions` tracks the problems of a cluster with their start.

`check_cluster` prevents that the history of one cluster is continued with another's.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from treadle.errors import UserError
from treadle.files import hold
from treadle.yarn.pages import address_of, addresses, property_of

CONDITIONS_MAX: Final = 64
TEXT_MAX: Final = 512
UNSEEN_S: Final = 600.0
"""A problem of an earlier process continues if its last poll was at most this long ago, in seconds."""


class Trouble(NamedTuple):
    """A problem found by a poll."""

    severity: str
    """``fail``: Treadle does not schedule, or the cluster is unreachable; ``warn``: a person should act."""
    text: str


class Condition(NamedTuple):
    """A current problem."""

    name: str
    severity: str
    text: str
    since_s: float
    """Time of the first poll that found it, seconds since 1970."""

    def line(self) -> str:
        """Return it as a line of a log."""
        return f"{self.name}: {self.text}"


STALLED_NAME: Final = "stalled "
"""Prefix of the problem name of a stalled queue."""


class Conditions:
    """The current problems with their start."""

    def __init__(self, kept: Iterable[Condition] = (), polled_s: float = 0.0) -> None:
        """Start with the problems of an earlier process.

        Args:
            kept: the problems at its last poll
            polled_s: time of that poll, seconds since 1970
        """
        self._now = {condition.name: condition for condition in kept}
        self._polled_s = polled_s
        self._has_polled = False
        self._reported: set[str] = set()

    def update(
        self, at_s: float, troubles: Mapping[str, Trouble]
    ) -> tuple[tuple[Condition, ...], list[str], list[str]]:
        """Return the current problems with their start, a line for each new one, and a line for each resolved one.

        Args:
            at_s: the time, seconds since 1970
            troubles: the problems, by a name that is stable for the same problem
        """
        before = self._now
        same = before if self._has_polled or at_s - self._polled_s <= UNSEEN_S else {}
        self._has_polled = True
        now: dict[str, Condition] = {}
        began = []
        for name, trouble in list(troubles.items())[:CONDITIONS_MAX]:
            text, old = trouble.text[:TEXT_MAX], same.get(name)
            now[name] = Condition(name, trouble.severity, text, old.since_s if old else at_s)
            if old is None:
                began.append(now[name].line())
        # a lost engine reports no queues, which may still be stalled
        lost = any(trouble.severity == "fail" for trouble in troubles.values())
        over = [
            f"{'unknown now' if lost and name.startswith(STALLED_NAME) else 'resolved'}: {old.line()}"
            for name, old in before.items()
            if name not in now
        ]
        self._now = now
        return tuple(now.values()), began, over

    def unreported(self) -> list[Condition]:
        """Return problems not reported by this process yet, such as those that an earlier one found."""
        unreported = [condition for name, condition in self._now.items() if name not in self._reported]
        self._reported = set(self._now)
        return unreported


LEVELS: Final = ((10, 360), (60, 1440), (900, 2880))
"""(seconds per row, number of rows): an hour, a day, thirty days."""
SERIES_MAX: Final = 256
JOBS_MAX: Final = 1000
"""Maximum number of ended jobs, and of running jobs with estimates; the latest are kept."""
EVENTS_MAX: Final = 1000
ADDRESSES_MAX: Final = 32
FILE_BYTES_MAX: Final = 128 << 20

_PAGE_BYTES: Final = 4096
_SCHEMA: Final = 1
_TIDY_EVERY: Final = 60
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS points (
  series INTEGER NOT NULL, level INTEGER NOT NULL, slot INTEGER NOT NULL, total REAL NOT NULL, samples INTEGER NOT NULL,
  PRIMARY KEY (series, level, slot)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, ended_ms INTEGER NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (ended_ms);
CREATE TABLE IF NOT EXISTS conditions (
  name TEXT PRIMARY KEY, severity TEXT NOT NULL, text TEXT NOT NULL, since_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value REAL NOT NULL);
CREATE TABLE IF NOT EXISTS addresses (address TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS seen (name TEXT PRIMARY KEY, text TEXT NOT NULL);
"""


class Points(NamedTuple):
    """Time series."""

    step_s: int
    """Seconds between two points."""
    series: dict[str, list[tuple[int, float]]]
    """(seconds since 1970, value); times without a poll are omitted."""


class History:
    """The stored state of the dashboard. Thread-safe. Methods raise `sqlite3.Error` if the file fails."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it.

        Raises:
            UserError: it cannot be opened, is not a history, or is in use by another dashboard.
        """
        self.path = path
        self._lock = Lock()
        self._records = 0
        self._held = _hold(path)
        try:
            self._base = sqlite3.connect(path, check_same_thread=False, isolation_level="IMMEDIATE")
            try:
                self._open()
            except BaseException:
                self._base.close()
                raise
        except sqlite3.Error as error:
            os.close(self._held)
            raise UserError(f"{path}: {error}; move the file away, then a new history begins") from error
        except UserError:
            os.close(self._held)
            raise
        self._ids = {name: number for number, name in self._base.execute("SELECT id, name FROM series")}

    def _open(self) -> None:
        self.path.chmod(0o600)
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _SCHEMA):
            raise UserError(
                f"{self.path}: its version is {version}, this release reads {_SCHEMA}; move the file away, then a new "
                "history begins"
            )
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self._base.execute(f"PRAGMA journal_size_limit = {8 << 20}")
        self._base.execute(f"PRAGMA max_page_count = {FILE_BYTES_MAX // _PAGE_BYTES}")
        self._base.executescript(_TABLES)
        self._base.execute(f"PRAGMA user_version = {_SCHEMA}")
        status = self.path.stat()
        self._inode = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the file and release its lock."""
        with self._lock:
            self._base.close()
            if self._held >= 0:
                os.close(self._held)
            self._held = -1

    def record(self, at_s: float, values: Mapping[str, float]) -> int:
        """Add the values of one time; return how many were dropped because there are too many series."""
        with self._lock, self._base:
            self._check_there()
            left_out = 0
            for name, value in values.items():
                number = self._series(name)
                if number is None:
                    left_out += 1
                    continue
                for level, (step_s, _) in enumerate(LEVELS):
                    self._base.execute(
                        "INSERT INTO points VALUES (?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET "
                        "total = total + excluded.total, samples = samples + 1",
                        (number, level, int(at_s // step_s), float(value)),
                    )
            if self._records % _TIDY_EVERY == 0:
                self._tidy(at_s)
            self._records += 1
            return left_out

    def _check_there(self) -> None:
        """Raise an error if the file is gone: SQLite would continue to write into an unreachable one."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise sqlite3.OperationalError(f"{error.strerror}; restart the dashboard") from error
        if (status.st_dev, status.st_ino) != self._inode:
            raise sqlite3.OperationalError("another file is in its place; restart the dashboard")

    def _series(self, name: str) -> int | None:
        number = self._ids.get(name)
        if number is None and len(self._ids) < SERIES_MAX:
            number = self._base.execute("INSERT INTO series (name) VALUES (?)", (name,)).lastrowid
            assert number is not None
            self._ids[name] = number
        return number

    def _tidy(self, at_s: float) -> None:
        """Remove expired rows, and future ones after the clock was put back; also detects a damaged file."""
        (verdict,) = self._base.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"it is damaged ({verdict}); move it away and restart the dashboard")
        for level, (step_s, count) in enumerate(LEVELS):
            now = int(at_s // step_s)
            self._base.execute(
                "DELETE FROM points WHERE level = ? AND (slot <= ? OR slot > ?)", (level, now - count, now)
            )
        self._base.execute("DELETE FROM series WHERE id NOT IN (SELECT DISTINCT series FROM points)")
        self._ids = {name: number for number, name in self._base.execute("SELECT id, name FROM series")}

    def points(self, names: Iterable[str], span_s: int, at_s: float) -> Points:
        """Return series of the last ``span_s`` seconds, at the finest resolution that covers them."""
        levels = [level for level, (step_s, count) in enumerate(LEVELS) if step_s * count >= span_s]
        level = levels[0] if levels else len(LEVELS) - 1
        step_s = LEVELS[level][0]
        first = int((at_s - span_s) // step_s)
        points: dict[str, list[tuple[int, float]]] = {}
        with self._lock:
            for name in names:
                if (number := self._ids.get(name)) is not None:
                    rows = self._base.execute(
                        "SELECT slot, total / samples FROM points WHERE series = ? AND level = ? AND slot > ? "
                        "ORDER BY slot",
                        (number, level, first),
                    )
                    points[name] = [(slot * step_s, value) for slot, value in rows]
        return Points(step_s, points)

    def names(self) -> list[str]:
        """Return the names of all series."""
        with self._lock:
            return sorted(self._ids)

    def keep_jobs(self, jobs: Mapping[str, Mapping[str, Any]]) -> None:
        """Store jobs by ID; ``ended_ms`` is 0 for a running one."""
        with self._lock, self._base:
            for name, job in jobs.items():
                self._base.execute(
                    "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", (name, int(job["ended_ms"]), json.dumps(dict(job)))
                )
            for which in ("ended_ms > 0", "ended_ms = 0"):
                self._base.execute(
                    f"DELETE FROM jobs WHERE {which} AND rowid NOT IN "  # noqa: S608 which is one of the two above
                    f"(SELECT rowid FROM jobs WHERE {which} ORDER BY ended_ms DESC, rowid DESC LIMIT {JOBS_MAX})"
                )

    def jobs(self, ended: bool) -> dict[str, dict[str, Any]]:
        """Return the ended jobs, latest first, or the running ones with estimates."""
        which = "ended_ms > 0" if ended else "ended_ms = 0"
        with self._lock:
            rows = self._base.execute(
                f"SELECT id, document FROM jobs WHERE {which} ORDER BY ended_ms DESC, rowid DESC"  # noqa: S608
            ).fetchall()
        return {name: dict(json.loads(document)) for name, document in rows}

    def forget_jobs(self, names: Iterable[str]) -> None:
        """Remove jobs."""
        with self._lock, self._base:
            self._base.executemany("DELETE FROM jobs WHERE id = ?", [(name,) for name in names])

    def keep_conditions(self, at_s: float, conditions: Iterable[Condition], events: Iterable[str]) -> None:
        """Store the problems at a time, and lines about changes."""
        with self._lock, self._base:
            self._base.execute("DELETE FROM conditions")
            self._base.executemany("INSERT INTO conditions VALUES (?, ?, ?, ?)", [tuple(each) for each in conditions])
            self._base.executemany("INSERT INTO events (at_s, text) VALUES (?, ?)", [(at_s, text) for text in events])
            self._base.execute(
                "DELETE FROM events WHERE id <= (SELECT COALESCE(MAX(id), 0) FROM events) - ?", (EVENTS_MAX,)
            )
            self._base.execute("INSERT OR REPLACE INTO facts VALUES ('polled_s', ?)", (at_s,))

    def conditions(self) -> tuple[float, list[Condition]]:
        """Return the time of the last poll, seconds since 1970 (0: never), and the problems then."""
        with self._lock:
            looked = self._base.execute("SELECT value FROM facts WHERE name = 'polled_s'").fetchone()
            rows = self._base.execute("SELECT name, severity, text, since_s FROM conditions ORDER BY name").fetchall()
        return (looked[0] if looked else 0.0), [Condition(*row) for row in rows]

    def is_empty(self) -> bool:
        """Return whether no data of a cluster is stored, except possibly that it was not found."""
        with self._lock:
            seen = self._base.execute("SELECT 1 FROM points UNION ALL SELECT 1 FROM jobs LIMIT 1").fetchone()
        return seen is None

    def reset(self) -> None:
        """Remove problems and changes."""
        with self._lock, self._base:
            for table in ("conditions", "events", "facts", "seen"):
                self._base.execute(f"DELETE FROM {table}")  # noqa: S608 a name of the line above

    def seen(self) -> dict[str, str]:
        """Return the last values of rarely changing items, such as the policy."""
        with self._lock:
            return dict(self._base.execute("SELECT name, text FROM seen").fetchall())

    def keep_seen(self, seen: Mapping[str, str]) -> None:
        """Replace the stored values of rarely changing items."""
        with self._lock, self._base:
            self._base.execute("DELETE FROM seen")
            self._base.executemany("INSERT INTO seen VALUES (?, ?)", list(seen.items()))

    def addresses(self) -> set[str]:
        """Return the addresses of the ResourceManagers of this history's cluster."""
        with self._lock:
            return {address for (address,) in self._base.execute("SELECT address FROM addresses")}

    def keep_addresses(self, addresses: Iterable[str]) -> None:
        """Replace the stored addresses, at most `ADDRESSES_MAX`."""
        with self._lock, self._base:
            self._base.execute("DELETE FROM addresses")
            rows = [(address,) for address in sorted(addresses)[:ADDRESSES_MAX]]
            self._base.executemany("INSERT INTO addresses VALUES (?)", rows)

    def events(self, count: int = EVENTS_MAX) -> list[tuple[float, str]]:
        """Return the latest lines about changes, with their times; newest first."""
        with self._lock:
            return self._base.execute("SELECT at_s, text FROM events ORDER BY id DESC LIMIT ?", (count,)).fetchall()


def _hold(path: Path) -> int:
    """Return the descriptor of an exclusive lock.

    Raises:
        UserError: another process has it, or the folder is missing.
    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"{lock}: {error.strerror}; name a folder of your own with --state") from error
    if not hold(descriptor):
        os.close(descriptor)
        raise UserError(f"{path.parent}: another dashboard keeps its history there; name another --state")
    return descriptor


_ANYWHERE: Final = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 nothing listens there
"""Names that every host has do not identify a cluster; an explicitly configured address does."""


def check_cluster(history: History, rm: str, ca: Path | None = None, is_same: bool = False) -> None:
    """Store the identity of the history's cluster: the address of its ResourceManager, and those of an HA pair.

    A history without data of a cluster has no identity, whatever address was tried.

    Args:
        history: of this cluster, or empty
        rm: the ResourceManager's address
        ca: certificates to trust over https
        is_same: whether the user confirms that it is the same cluster under a new address

    Raises:
        UserError: the history belongs to another cluster, or fails.
    """
    try:
        kept = history.addresses()
        addresses_now = {address_of(rm), *_of_pair(rm, ca)}
        is_other = bool(kept) and kept.isdisjoint(addresses_now) and not is_same
        if is_other and history.is_empty():  # the address has never answered: it may have been a mistake
            history.reset()
            kept = set()
        elif is_other:
            raise UserError(
                f"{history.path} is the history of the cluster of {', '.join(sorted(kept))}; name another --state for "
                f"that of {address_of(rm)}, or --same-cluster if it is the same one under a new address"
            )
        history.keep_addresses(addresses_now if is_same else kept | addresses_now)
    except sqlite3.Error as error:
        raise UserError(f"{history.path}: {error}; move the file away, then a new history begins") from error


def _of_pair(rm: str, ca: Path | None) -> set[str]:
    """Return the addresses in a ResourceManager's configuration; empty if it does not answer."""
    try:
        named = addresses(lambda key: property_of(rm, key, ca)).values()
    except UserError:
        return set()
    return {address for address in named if urlsplit(address).hostname not in _ANYWHERE}

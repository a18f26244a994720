"""Numbers over time, jobs that ended and what went wrong, in one SQLite file of a bounded size.

Each number is kept three times, finer for a shorter time: a row of a level is the mean of what was seen within it.

What is wrong with a cluster, and since when.

Whose history a file is: that of another cluster is not continued as if it were this one's.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
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
"""What was wrong when an earlier process looked last is the same trouble if that was no longer ago."""


class Trouble(NamedTuple):
    """What somebody who looked found."""

    severity: str
    """``fail``: the cluster is not scheduled by Treadle, or not seen; ``warn``: something waits for somebody."""
    text: str


class Condition(NamedTuple):
    """Something that is wrong."""

    name: str
    severity: str
    text: str
    since_s: float
    """When it was seen first, seconds since 1970."""

    def line(self) -> str:
        """Return it as a line of a log."""
        return f"{self.name}: {self.text}"


STARVED_NAME: Final = "starved "
"""How the name of the trouble of a starved queue begins."""


class Conditions:
    """What is wrong now, with since when."""

    def __init__(self, kept: Iterable[Condition] = (), polled_s: float = 0.0) -> None:
        """Begin with what an earlier process knew.

        Args:
            kept: what was wrong when it looked last
            polled_s: when that was, seconds since 1970
        """
        self._now = {condition.name: condition for condition in kept}
        self._polled_s = polled_s
        self._has_polled = False
        self._reported: set[str] = set()

    def update(
        self, at_s: float, troubles: Mapping[str, Trouble]
    ) -> tuple[tuple[Condition, ...], list[str], list[str]]:
        """Return what is wrong, with since when; a line for each that is new; and a line for each that is over.

        Args:
            at_s: the time, seconds since 1970
            troubles: what is wrong, by a name that stays the same as long as it is the same trouble
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
        # an engine that is lost names no queues: they may be starved as before
        lost = any(trouble.severity == "fail" for trouble in troubles.values())
        over = [
            f"{'unknown now' if lost and name.startswith(STARVED_NAME) else 'resolved'}: {old.line()}"
            for name, old in before.items()
            if name not in now
        ]
        self._now = now
        return tuple(now.values()), began, over

    def unreported(self) -> list[Condition]:
        """Return what is wrong that this process has not been asked for yet, as when an earlier one saw it begin."""
        unreported = [condition for name, condition in self._now.items() if name not in self._reported]
        self._reported = set(self._now)
        return unreported


LEVELS: Final = ((10, 360), (60, 1440), (900, 2880))
"""Seconds of a row, and how many rows are kept: an hour, a day, thirty days."""
SERIES_MAX: Final = 256
JOBS_MAX: Final = 1000
"""The latest jobs that ended and are kept, and running jobs whose estimates are kept."""
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
    """Numbers over time."""

    step_s: int
    """Seconds between two points."""
    series: dict[str, list[tuple[int, float]]]
    """Time, seconds since 1970, and number; a time at which nothing was seen is left out."""


class History:
    """What the dashboard remembers. Thread-safe. Methods raise `sqlite3.Error` where the file fails."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            UserError: it cannot be opened, is no history, or another dashboard uses it.
        """
        self.path = path
        self._lock = Lock()
        self._records = 0
        self._held = _hold(path)
        try:
            self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
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
        """Close the file; others may use it then."""
        with self._lock:
            self._base.close()
            if self._held >= 0:
                os.close(self._held)
            self._held = -1

    def record(self, at_s: float, values: Mapping[str, float]) -> int:
        """Add numbers of one moment; returns how many were left out because there are too many series."""
        with self._lock, _Transaction(self._base):
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
        """Fail if the file is no longer what was opened: SQLite would write on into a file that nobody finds again."""
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
        """Remove what is too old, and rows of a time to come: the clock was put back. A damaged file fails."""
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
        """Return series of the last ``span_s`` seconds, at the finest level that goes so far back."""
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
        """Keep what is known of jobs, by id; ``ended_ms`` is 0 in one that runs."""
        with self._lock, _Transaction(self._base):
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
        """Return the jobs that ended, the latest first, or those of which something was estimated while they ran."""
        which = "ended_ms > 0" if ended else "ended_ms = 0"
        with self._lock:
            rows = self._base.execute(
                f"SELECT id, document FROM jobs WHERE {which} ORDER BY ended_ms DESC, rowid DESC"  # noqa: S608
            ).fetchall()
        return {name: dict(json.loads(document)) for name, document in rows}

    def forget_jobs(self, names: Iterable[str]) -> None:
        """Remove jobs."""
        with self._lock, _Transaction(self._base):
            self._base.executemany("DELETE FROM jobs WHERE id = ?", [(name,) for name in names])

    def keep_conditions(self, at_s: float, conditions: Iterable[Condition], events: Iterable[str]) -> None:
        """Keep what is wrong at a time, and lines of what changed."""
        with self._lock, _Transaction(self._base):
            self._base.execute("DELETE FROM conditions")
            self._base.executemany("INSERT INTO conditions VALUES (?, ?, ?, ?)", [tuple(each) for each in conditions])
            self._base.executemany("INSERT INTO events (at_s, text) VALUES (?, ?)", [(at_s, text) for text in events])
            self._base.execute(
                "DELETE FROM events WHERE id <= (SELECT COALESCE(MAX(id), 0) FROM events) - ?", (EVENTS_MAX,)
            )
            self._base.execute("INSERT OR REPLACE INTO facts VALUES ('looked_s', ?)", (at_s,))

    def conditions(self) -> tuple[float, list[Condition]]:
        """Return when was looked last, seconds since 1970 (0: never), and what was wrong then."""
        with self._lock:
            looked = self._base.execute("SELECT value FROM facts WHERE name = 'looked_s'").fetchone()
            rows = self._base.execute("SELECT name, severity, text, since_s FROM conditions ORDER BY name").fetchall()
        return (looked[0] if looked else 0.0), [Condition(*row) for row in rows]

    def is_empty(self) -> bool:
        """Has nothing of any cluster been kept yet, but perhaps that none was found?"""
        with self._lock:
            seen = self._base.execute("SELECT 1 FROM points UNION ALL SELECT 1 FROM jobs LIMIT 1").fetchone()
        return seen is None

    def reset(self) -> None:
        """Forget what was wrong and what changed."""
        with self._lock, _Transaction(self._base):
            self._base.execute("DELETE FROM conditions")
            self._base.execute("DELETE FROM events")
            self._base.execute("DELETE FROM facts")
            self._base.execute("DELETE FROM seen")

    def seen(self) -> dict[str, str]:
        """Return what was seen last of what changes seldom, such as the policy."""
        with self._lock:
            return dict(self._base.execute("SELECT name, text FROM seen").fetchall())

    def keep_seen(self, seen: Mapping[str, str]) -> None:
        """Put what is seen in the place of what was kept."""
        with self._lock, _Transaction(self._base):
            self._base.execute("DELETE FROM seen")
            self._base.executemany("INSERT INTO seen VALUES (?, ?)", list(seen.items()))

    def addresses(self) -> set[str]:
        """Return under which addresses the ResourceManagers of the cluster were found whose history this is."""
        with self._lock:
            return {address for (address,) in self._base.execute("SELECT address FROM addresses")}

    def keep_addresses(self, addresses: Iterable[str]) -> None:
        """Put addresses in the place of those that are kept, at most `ADDRESSES_MAX`."""
        with self._lock, _Transaction(self._base):
            self._base.execute("DELETE FROM addresses")
            rows = [(address,) for address in sorted(addresses)[:ADDRESSES_MAX]]
            self._base.executemany("INSERT INTO addresses VALUES (?)", rows)

    def events(self, count: int = EVENTS_MAX) -> list[tuple[float, str]]:
        """Return the latest lines of what changed, with their times; the newest first."""
        with self._lock:
            return self._base.execute("SELECT at_s, text FROM events ORDER BY id DESC LIMIT ?", (count,)).fetchall()


class _Transaction:
    """All that is written within it, or none."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base

    def __enter__(self) -> None:
        self._base.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._base.execute("COMMIT")
        else:
            with suppress(sqlite3.Error):  # a full disk may have ended it already
                self._base.execute("ROLLBACK")


def _hold(path: Path) -> int:
    """Return the descriptor of a lock that one process may have.

    Raises:
        UserError: another one has it, or there is no such folder.
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
"""What every host calls itself identifies no cluster; the address that somebody named does."""


def check_cluster(history: History, rm: str, ca: Path | None = None, is_same: bool = False) -> None:
    """Keep in a history which cluster it is of: the address of its ResourceManager, and those of a pair.

    A history into which nothing of a cluster came yet is of none, whatever address was tried.

    Args:
        history: of this cluster, or of none yet
        rm: the ResourceManager's address
        ca: certificates to trust over https
        is_same: somebody says that it is the same cluster, under a new address

    Raises:
        UserError: the history is that of another cluster, or fails.
    """
    try:
        kept = history.addresses()
        addresses_now = {address_of(rm), *_of_pair(rm, ca)}
        is_other = bool(kept) and kept.isdisjoint(addresses_now) and not is_same
        if is_other and history.is_empty():  # nobody answered under that address: it may have been a mistake
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
    """Return the addresses that a ResourceManager's configuration names; none if it does not answer."""
    try:
        named = addresses(lambda key: property_of(rm, key, ca)).values()
    except UserError:
        return set()
    return {address for address in named if urlsplit(address).hostname not in _ANYWHERE}

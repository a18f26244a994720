"""The database of the history store: tables, connections, retention, and errors.

A store has the version of its tables; a release uses stores of its own version alone.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from treadle.config.settings import JobHistory
from treadle.errors import UserError
from treadle.history.profile import user_digest


class Unusable(StrEnum):
    """Kinds of errors; the value is the remedy."""

    FULL = "its disk or its size limit is full; free space, or keep less (docs/profiles.md)"
    READ_ONLY = "it is read-only; let this user write the file and its folder"
    CORRUPTED = "it is corrupted; move the file away and a new one is begun, or restore a copy of it"
    OTHER_RELEASE = "another release of Treadle made its tables; run that release, or name another store"
    FOREIGN = "it holds tables that are not Treadle's; name another store"
    BUSY = "another process has kept it locked; end that process or try again later"
    MISSING = "it is not there; check its path"
    DRIVER = "its database needs a driver that is not installed; install it with pip"
    UNREACHABLE = "it cannot be opened; check its path or URL, and the permissions"


class StoreError(UserError):
    """A history store is unusable; the text says which one, why, and the remedy."""

    def __init__(self, store: str, reason: Unusable, detail: str = "") -> None:
        self.store = store
        self.reason = reason
        super().__init__(f"history store {store}: {reason.value}" + (f" ({detail})" if detail else ""))


_SQLITE = {
    sqlite3.SQLITE_FULL: Unusable.FULL,
    sqlite3.SQLITE_READONLY: Unusable.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: Unusable.CORRUPTED,
    sqlite3.SQLITE_NOTADB: Unusable.CORRUPTED,
    sqlite3.SQLITE_BUSY: Unusable.BUSY,
    sqlite3.SQLITE_LOCKED: Unusable.BUSY,
    sqlite3.SQLITE_PERM: Unusable.READ_ONLY,
}

_ERRNO = {
    errno.ENOSPC: Unusable.FULL,
    errno.EDQUOT: Unusable.FULL,
    errno.EROFS: Unusable.READ_ONLY,
    errno.EACCES: Unusable.READ_ONLY,
    errno.EPERM: Unusable.READ_ONLY,
    errno.ENOENT: Unusable.MISSING,
}


_COLLISIONS = {"40001", "40P01"}
"""SQLSTATEs of a serialisation failure and a deadlock: the transaction must be repeated."""


def collided(error: Exception) -> bool:
    """Return whether a transaction failed because of another one and may be repeated."""
    if not isinstance(error, DBAPIError):
        return False
    # two transactions create one row, or one removes a row that the other references
    return isinstance(error, IntegrityError) or getattr(error.orig, "sqlstate", None) in _COLLISIONS


def explained(store: str, error: Exception) -> StoreError:
    """Return the store error for an exception of a database or the file system."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        return StoreError(store, _ERRNO.get(error.errno or 0, Unusable.UNREACHABLE), error.strerror or str(error))
    cause = error.orig if isinstance(error, DBAPIError) else error
    detail = str(cause).partition("\n")[0]
    if collided(error):
        return StoreError(store, Unusable.BUSY, detail)
    if isinstance(cause, sqlite3.Error):
        # the low byte of SQLite's extended code is its kind
        code = (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF
        return StoreError(store, _SQLITE.get(code, Unusable.UNREACHABLE), detail)
    if isinstance(error, ImportError):
        return StoreError(store, Unusable.DRIVER, detail)
    if isinstance(error, SQLAlchemyError):
        return StoreError(store, Unusable.UNREACHABLE, detail)
    return StoreError(store, Unusable.CORRUPTED, detail)


_LONG: Final = Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")

VERSION: Final = 3
"""Version of the tables; a store with another one is rejected."""

METADATA: Final = MetaData()

SCHEMA: Final = Table("treadle_schema", METADATA, Column("version", Integer, nullable=False))

PROFILES: Final = Table(
    "treadle_profiles",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("digest", String(32), nullable=False, unique=True),  # digest of the key: its texts are too long for an index
    Column("user_digest", String(32), nullable=False),
    Column("user_name", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("first_seen_ms", BigInteger, nullable=False),
    Column("last_seen_ms", BigInteger, nullable=False),
    Column("recent", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False, server_default="0"),  # of this row and its stages
    Column("application", String(64), nullable=False, server_default=""),  # the last to change it: YARN ID, or empty
    Index("treadle_profiles_by_user", "user_digest", "last_seen_ms"),
    Index("treadle_profiles_by_age", "last_seen_ms"),
    Index("treadle_profiles_by_application", "application"),
)

ROW_BYTES: Final = 100
"""Approximate size of a row without its texts."""

STAGES: Final = Table(
    "treadle_stages",
    METADATA,
    Column(
        "profile", Integer, ForeignKey("treadle_profiles.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    ),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("document", _LONG, nullable=False),  # the rest of a StageProfile, JSON: see documents.py
)


SAMPLES: Final = Table(
    "treadle_samples",
    METADATA,
    Column("application", String(64), primary_key=True),  # YARN's ID
    Column("seen_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),  # its sampling state, JSON: see `store.Sample`
    Index("treadle_samples_by_age", "seen_ms"),
)


def prepare_tables(connection: Connection, store: str, *, read_only: bool) -> None:
    """Create the tables of an empty store, within the connection's transaction.

    Raises:
        StoreError: it has tables of another release, or foreign ones; with ``read_only`` also if it is empty.
    """
    tables = set(inspect(connection).get_table_names())
    if SCHEMA.name in tables:
        version = connection.execute(select(SCHEMA.c.version)).scalar()
        if version != VERSION:
            raise StoreError(store, Unusable.OTHER_RELEASE, f"version {version!r}, not {VERSION}")
    elif tables & {PROFILES.name, STAGES.name}:
        raise StoreError(store, Unusable.FOREIGN)
    elif read_only:
        raise StoreError(store, Unusable.MISSING, "the database is empty")
    else:
        METADATA.create_all(connection)
        connection.execute(insert(SCHEMA).values(version=VERSION))


_HEAD: Final = b"SQLite format 3\0"
"""The first bytes of an SQLite file."""

BUSY_TIMEOUT_S: Final = 5.0
"""How long a writer waits for another one, in seconds."""

READS: Final = "treadle_reads"
"""Execution option of a connection with read-only transactions."""


def connect(location: str, *, read_only: bool) -> Engine:
    """Return the engine of a store that is a path or a URL such as ``postgresql+psycopg://host/database``.

    A missing SQLite file is created, for this user alone (mode 0600, its folder 0700), unless ``read_only``.

    Raises:
        StoreError: it cannot be created.
    """
    name = shown(location)
    try:
        url = make_url(location) if "://" in location else URL.create("sqlite", database=location)
    except ArgumentError as error:
        raise StoreError(name, Unusable.UNREACHABLE, "no URL that SQLAlchemy knows") from error
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url, read_only=read_only)
        return create_engine(url, isolation_level="READ COMMITTED", pool_size=2, max_overflow=2, pool_pre_ping=True)
    except (SQLAlchemyError, ImportError, OSError) as error:
        raise explained(name, error) from error


def shown(location: str) -> str:
    """Return a store's path or URL without a password."""
    if "://" not in location:
        return location
    try:
        return make_url(location).render_as_string(hide_password=True)
    except ArgumentError:
        return location.partition("://")[0] + "://..."


def _sqlite(url: URL, *, read_only: bool) -> Engine:
    arguments: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    file = Path(url.database or "")
    if url.database and url.database != ":memory:" and not url.database.startswith("file:"):
        if read_only:
            file.stat()
        else:
            _make_private(file)
    engine = create_engine(url, connect_args=arguments)
    if read_only:
        engine = engine.execution_options(**{READS: True})
        # SQLAlchemy cannot express every path as an SQLite URI
        event.listen(engine, "do_connect", lambda *_: _read_only_connection(file))
    event.listen(engine, "connect", _prepare_read_only if read_only else _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _make_private(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):  # a link too: it may lead to a file outside the store
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    descriptor = os.open(file, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_mode & 0o077 and (not status.st_size or os.pread(descriptor, len(_HEAD), 0) == _HEAD):
            os.fchmod(descriptor, 0o600)  # its journal gets the mode of the file
    finally:
        os.close(descriptor)


def _read_only_connection(file: Path) -> sqlite3.Connection:
    uri = f"{file.resolve().as_uri()}?mode=ro"
    # A read-only folder has no room for the index of a write-ahead log; without a log none is needed.
    if not os.access(file.parent, os.W_OK) and not file.with_name(f"{file.name}-wal").exists():
        uri += "&immutable=1"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None)


def _prepare_read_only(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    # The driver would begin transactions late and in another mode: see _begin.
    connection.isolation_level = None
    for pragma in (
        "auto_vacuum = FULL",  # removes deleted data from the file; must be set before tables or a log exist
        "journal_mode = WAL",  # readers do not wait, and a killed writer leaves nothing incomplete
        "synchronous = NORMAL",  # enough with a log: a power cut may lose the last runs, never the file
        "foreign_keys = ON",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    # Lock for writing at once: two transactions that read first and write later would conflict.
    reads = connection.get_execution_options().get(READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


DAY_MS = 86_400_000

MIB: Final = 1 << 20
PROFILE_BYTES_MAX: Final = 4 * MIB
"""Maximum size of a profile; further stages are not stored."""


KEEP_ALL: Final = JobHistory.model_construct(
    age_days=1_000_000, rows_per_user=1 << 40, size_mb=1 << 40, user_mb=1 << 40, application_mb=1 << 40
)
"""For writers without the administrator's limits: the next writer that has them removes the excess."""


SAMPLES_MAX: Final = 20_000
"""Maximum number of running jobs with stored pilot measurements."""
SAMPLE_BYTES: Final = 600
"""Maximum size of one; all of them take at most a quarter of the store."""


def prune(
    connection: Connection, retention: JobHistory, now_ms: int, user: str | None = None, application: str = ""
) -> int:
    """Remove the least recently seen data above the limits; return the number of removed profiles.

    First that of an application or a user above its limit; above the total limit, of the user with the most data. A
    row is a stage of a profile. The total size is that of used pages of an SQLite file, or of the rows in another
    database. With ``user`` only the limits of that user, and of the application, are checked.
    """
    if user is not None:
        removed = 0
        if application:
            where = PROFILES.c.application == application
            removed = _prune_some(connection, where, None, retention.application_mb * MIB)
        return removed + _prune_user(connection, retention, user_digest(user))
    prune_samples(connection, retention)
    oldest_ms = now_ms - retention.age_days * DAY_MS
    old = connection.execute(select(PROFILES.c.id).where(PROFILES.c.last_seen_ms < oldest_ms)).scalars().all()
    remove(connection, old)
    removed = len(old)
    users = connection.execute(select(PROFILES.c.user_digest).distinct()).scalars().all()
    for digest in sorted(users):
        removed += _prune_user(connection, retention, digest)
    while some := _of_the_largest(connection, used_bytes(connection) - retention.size_mb * MIB):
        remove(connection, some)
        removed += len(some)
    return removed


def prune_samples(connection: Connection, retention: JobHistory) -> None:
    """Remove the oldest samples beyond a number."""
    most = min(SAMPLES_MAX, retention.size_mb * MIB // 4 // SAMPLE_BYTES)
    many = connection.execute(select(func.count()).select_from(SAMPLES)).scalar_one() - most
    if many > 0:
        query = select(SAMPLES.c.application).order_by(SAMPLES.c.seen_ms, SAMPLES.c.application).limit(many)
        for application in connection.execute(query).scalars().all():
            connection.execute(delete(SAMPLES).where(SAMPLES.c.application == application))


def used_bytes(connection: Connection) -> int:
    """Return the used size of a store in bytes."""
    if connection.dialect.name == "sqlite":
        pages, free, size = (
            int(connection.execute(text(f"PRAGMA {name}")).scalar_one())
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size
    return int(connection.execute(select(func.coalesce(func.sum(PROFILES.c.bytes), 0))).scalar_one())


def _prune_user(connection: Connection, retention: JobHistory, digest: str) -> int:
    where = PROFILES.c.user_digest == digest
    return _prune_some(connection, where, retention.rows_per_user, retention.user_mb * MIB)


def _prune_some(connection: Connection, where: ColumnElement[bool], rows: int | None, most_bytes: int) -> int:
    """Keep the latest of some profiles, as many as fit into a number of rows and bytes with all their stages."""
    query = (
        select(PROFILES.c.id, PROFILES.c.bytes, func.count(STAGES.c.ordinal))
        .select_from(PROFILES.outerjoin(STAGES, STAGES.c.profile == PROFILES.c.id))
        .where(where)
        .group_by(PROFILES.c.id, PROFILES.c.bytes, PROFILES.c.last_seen_ms)
        .order_by(PROFILES.c.last_seen_ms.desc(), PROFILES.c.id.desc())
    )
    removed = []
    for number, size, stages in connection.execute(query).all():
        most_bytes -= size
        rows = None if rows is None else rows - max(1, stages)
        if most_bytes < 0 or (rows is not None and rows < 0):
            removed.append(number)
    remove(connection, removed)
    return len(removed)


def _of_the_largest(connection: Connection, excess: int) -> list[int]:
    """Return profiles with at least ``excess`` bytes: always the oldest of the user with the most remaining data."""
    if excess <= 0:
        return []
    query = select(PROFILES.c.user_digest, PROFILES.c.id, PROFILES.c.bytes).order_by(
        PROFILES.c.user_digest, PROFILES.c.last_seen_ms, PROFILES.c.id
    )
    profiles: dict[str, deque[tuple[int, int]]] = {}
    for digest, number, size in connection.execute(query):
        profiles.setdefault(digest, deque()).append((number, size))
    left = [(-sum(size for _, size in theirs), digest) for digest, theirs in profiles.items()]
    heapify(left)
    numbers: list[int] = []
    while excess > 0 and left and profiles[left[0][1]]:
        negative, digest = left[0]
        number, size = profiles[digest].popleft()
        numbers.append(number)
        excess -= size
        heapreplace(left, (negative + size, digest))
    return numbers


def remove(connection: Connection, numbers: Sequence[int]) -> None:
    """Remove profiles with their stages."""
    for number in numbers:
        connection.execute(delete(STAGES).where(STAGES.c.profile == number))
        connection.execute(delete(PROFILES).where(PROFILES.c.id == number))

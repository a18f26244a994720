"""Opening the database of a store: a private SQLite file by default, whatever SQLAlchemy knows by URL."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from treadle.history.errors import StoreError, Unusable, explained

BUSY_TIMEOUT_S: Final = 5.0
"""How long a writer waits for another one."""

READS: Final = "treadle_reads"
"""Execution option of a connection whose transactions only read."""


def connect(location: str, *, read_only: bool) -> Engine:
    """Return the engine of a store that is a path or a URL such as ``postgresql+psycopg://host/database``.

    A missing SQLite file is made, for this user alone (mode 0600, its folder 0700), unless ``read_only``.

    Raises:
        StoreError: there can be none.
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


def file_of(engine: Engine) -> Path | None:
    """Return the SQLite file behind an engine; None if there is none."""
    database = engine.url.database
    if engine.dialect.name != "sqlite" or not database or database == ":memory:" or database.startswith("file:"):
        return None
    return Path(database)


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
        # SQLAlchemy cannot spell a path with any character in it as a URI of SQLite's
        event.listen(engine, "do_connect", lambda *_: _read_only_connection(file))
    event.listen(engine, "connect", _prepare_read_only if read_only else _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _make_private(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)  # its journal gets the mode of the file
    finally:
        os.close(descriptor)


def _read_only_connection(file: Path) -> sqlite3.Connection:
    uri = f"{file.resolve().as_uri()}?mode=ro"
    # A folder that cannot be written has no room for the index of a write-ahead log; without a log none is needed.
    if not os.access(file.parent, os.W_OK) and not file.with_name(f"{file.name}-wal").exists():
        uri += "&immutable=1"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None)


def _prepare_read_only(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    # The driver would begin transactions late and not as wanted: see _begin.
    connection.isolation_level = None
    for pragma in (
        "auto_vacuum = FULL",  # what is forgotten leaves the file; set before there are tables or a log
        "journal_mode = WAL",  # readers do not wait, and a killed writer leaves nothing half done
        "synchronous = NORMAL",  # enough with a log: a power cut may lose the last runs, never the file
        "foreign_keys = ON",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    # A writer at once: two that read first and write later would have to start over.
    reads = connection.get_execution_options().get(READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

"""Why a store cannot be used now. Callers go on without it."""

from __future__ import annotations

import errno
import sqlite3
from enum import StrEnum

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from treadle.errors import UserError


class Unusable(StrEnum):
    """Kinds of reasons; the value is the remedy."""

    FULL = "its disk or its size limit is full; free space, or lower what is kept (docs/profiles.md)"
    READ_ONLY = "it is read-only; let this user write the file and its folder"
    CORRUPTED = "it is corrupted; move the file away and a new one is begun, or restore a copy of it"
    NEWER = "a newer Treadle has changed its tables; run that version, or name another store"
    OLDER = "an older Treadle made its tables; start the sidecar or import into it once, which brings it up to date"
    FOREIGN = "it holds tables that are not Treadle's; name another store"
    BUSY = "another process has kept it locked; end that process or try again later"
    MISSING = "it is not there; check its path"
    DRIVER = "its database needs a driver that is not installed; install it with pip"
    UNREACHABLE = "it cannot be opened; check its path or URL, and the permissions"


class StoreError(UserError):
    """A store of profiles cannot be used now; the text says which, why, and what to do."""

    def __init__(self, store: str, reason: Unusable, detail: str = "") -> None:
        self.store = store
        self.reason = reason
        super().__init__(f"store of profiles {store}: {reason.value}" + (f" ({detail})" if detail else ""))


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
"""SQLSTATEs: a transaction that must be done again because of another one, and a deadlock."""


def collided(error: Exception) -> bool:
    """Was another transaction in the way of one, so that it may be tried again?"""
    if not isinstance(error, DBAPIError):
        return False
    # two that make one row at a time, or one that removes what the other refers to
    return isinstance(error, IntegrityError) or getattr(error.orig, "sqlstate", None) in _COLLISIONS


def explained(store: str, error: Exception) -> StoreError:
    """Return what an exception of a database or of the file system means for a store."""
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

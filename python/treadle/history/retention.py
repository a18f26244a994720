"""How much the store keeps, and what is removed first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, func, select, text

from treadle.history.database import PROFILES, SAMPLES, STAGES
from treadle.history.run import user_digest

DAY_MS = 86_400_000

MIB: Final = 1 << 20
PROFILE_BYTES_MAX: Final = 4 * MIB
"""Of one profile; further stages are not kept."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds of a store.

    What was seen longest ago goes first: of an application and of a user that have too much; and where all have too
    much together, of the user that has most.
    """

    age_days: int = 180
    """A job that was not seen for this long is forgotten."""
    rows_per_user: int = 5_000
    """A row is a stage of a profile."""
    size_mb: int = 256
    """Of the whole store, in MiB: pages in use of an SQLite file, bytes of the rows in another database."""
    user_mb: int = 32
    """Of the profiles of one user, in MiB."""
    application_mb: int = 8
    """Of the profiles that one application was the last to change, in MiB: a session may run many DAGs."""


KEEP_ALL: Final = Retention(1_000_000, 1 << 40, 1 << 40, 1 << 40, 1 << 40)
"""For writers that do not know the administrator's bounds: the next writer that does removes the excess."""


SAMPLES_MAX: Final = 20_000
"""Running jobs whose pilot measurements are kept."""
SAMPLE_BYTES: Final = 600
"""What one takes, at most; all of them take no more than a quarter of the store."""


def prune(
    connection: Connection, retention: Retention, now_ms: int, user: str | None = None, application: str = ""
) -> int:
    """Remove what was seen longest ago until the rest is within bounds; returns how many profiles were removed.

    With ``user`` only the bounds of that user, and of the application, are looked at.
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
    _remove(connection, old)
    removed = len(old)
    users = connection.execute(select(PROFILES.c.user_digest).distinct()).scalars().all()
    for digest in sorted(users):
        removed += _prune_user(connection, retention, digest)
    while (excess := used_bytes(connection) - retention.size_mb * MIB) > 0:
        some = _of_the_largest(connection, excess)
        _remove(connection, some)
        removed += len(some)
        if not some:
            break
    return removed


def prune_samples(connection: Connection, retention: Retention) -> None:
    """Remove the oldest samples beyond a number."""
    most = min(SAMPLES_MAX, retention.size_mb * MIB // 4 // SAMPLE_BYTES)
    many = connection.execute(select(func.count()).select_from(SAMPLES)).scalar_one() - most
    if many > 0:
        query = select(SAMPLES.c.application).order_by(SAMPLES.c.seen_ms, SAMPLES.c.application).limit(many)
        for application in connection.execute(query).scalars().all():
            connection.execute(delete(SAMPLES).where(SAMPLES.c.application == application))


def used_bytes(connection: Connection) -> int:
    """Return how much of a store is in use."""
    if connection.dialect.name == "sqlite":
        pages, free, size = (
            int(connection.execute(text(f"PRAGMA {name}")).scalar_one())
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size
    return int(connection.execute(select(func.coalesce(func.sum(PROFILES.c.bytes), 0))).scalar_one())


def _prune_user(connection: Connection, retention: Retention, digest: str) -> int:
    where = PROFILES.c.user_digest == digest
    return _prune_some(connection, where, retention.rows_per_user, retention.user_mb * MIB)


def _prune_some(connection: Connection, where: ColumnElement[bool], rows: int | None, most_bytes: int) -> int:
    """Keep the latest of some profiles, as many as fit in some rows and bytes with all their stages."""
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
    _remove(connection, removed)
    return len(removed)


def _of_the_largest(connection: Connection, excess: int) -> list[int]:
    """Return profiles with at least some bytes: one after the other the oldest of the user that has most left."""
    query = select(PROFILES.c.user_digest, PROFILES.c.id, PROFILES.c.bytes).order_by(
        PROFILES.c.user_digest, PROFILES.c.last_seen_ms, PROFILES.c.id
    )
    profiles: dict[str, deque[tuple[int, int]]] = {}
    for digest, number, size in connection.execute(query):
        profiles.setdefault(digest, deque()).append((number, size))
    left = [(-sum(size for _, size in theirs), digest) for digest, theirs in profiles.items()]
    heapify(left)
    found: list[int] = []
    while excess > 0 and left and profiles[left[0][1]]:
        negative, digest = left[0]
        number, size = profiles[digest].popleft()
        found.append(number)
        excess -= size
        heapreplace(left, (negative + size, digest))
    return found


def _remove(connection: Connection, numbers: Sequence[int]) -> None:
    for number in numbers:
        connection.execute(delete(STAGES).where(STAGES.c.profile == number))
        connection.execute(delete(PROFILES).where(PROFILES.c.id == number))

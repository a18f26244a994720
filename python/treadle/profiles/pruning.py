"""Forgetting what a store's retention does not keep, within a transaction of the store's."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, func, select, text

from treadle.profiles.recurrence import user_digest
from treadle.profiles.retention import DAY_MS, Retention
from treadle.profiles.schema import PROFILES, STAGES

MIB: Final = 1 << 20
_PARTS: Final = 16
"""One part in so many of the profiles is removed between two looks at the size."""


def prune(connection: Connection, retention: Retention, now_ms: int, user: str | None = None) -> int:
    """Remove what was seen longest ago until the rest is within bounds; returns how many profiles were removed.

    With ``user`` only the bound of that user's rows is looked at.
    """
    if user is not None:
        return _prune_rows(connection, retention, user_digest(user))
    oldest_ms = now_ms - retention.age_days * DAY_MS
    removed = _remove(connection, PROFILES.c.last_seen_ms < oldest_ms, None)
    users = connection.execute(select(PROFILES.c.user_digest).distinct()).scalars().all()
    for digest in sorted(users):
        removed += _prune_rows(connection, retention, digest)
    while used_bytes(connection) > retention.size_mb * MIB:
        profiles = connection.execute(select(func.count()).select_from(PROFILES)).scalar_one()
        some = _remove(connection, None, profiles // _PARTS + 1)
        removed += some
        if not some:
            break
    return removed


def used_bytes(connection: Connection) -> int:
    """Return how much of a store is in use."""
    if connection.dialect.name == "sqlite":
        pages, free, size = (
            int(connection.execute(text(f"PRAGMA {name}")).scalar_one())
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size
    return int(connection.execute(select(func.coalesce(func.sum(func.length(STAGES.c.document)), 0))).scalar_one())


def _prune_rows(connection: Connection, retention: Retention, digest: str) -> int:
    """Keep the latest profiles of a user of which all stages fit in its rows."""
    query = (
        select(PROFILES.c.id, func.count(STAGES.c.ordinal))
        .select_from(PROFILES.outerjoin(STAGES, STAGES.c.profile == PROFILES.c.id))
        .where(PROFILES.c.user_digest == digest)
        .group_by(PROFILES.c.id, PROFILES.c.last_seen_ms)
        .order_by(PROFILES.c.last_seen_ms.desc(), PROFILES.c.id.desc())
    )
    left = retention.rows_per_user
    removed = []
    for number, stages in connection.execute(query).all():
        left -= max(1, stages)
        if left < 0:
            removed.append(number)
    for number in removed:
        _remove_one(connection, number)
    return len(removed)


def _remove(connection: Connection, where: ColumnElement[bool] | None, most: int | None) -> int:
    query = select(PROFILES.c.id).order_by(PROFILES.c.last_seen_ms, PROFILES.c.id)
    if where is not None:
        query = query.where(where)
    if most is not None:
        query = query.limit(most)
    numbers = connection.execute(query).scalars().all()
    for number in numbers:
        _remove_one(connection, number)
    return len(numbers)


def _remove_one(connection: Connection, number: int) -> None:
    connection.execute(delete(STAGES).where(STAGES.c.profile == number))
    connection.execute(delete(PROFILES).where(PROFILES.c.id == number))

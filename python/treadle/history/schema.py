"""The tables of a store and the steps that bring older ones up to date.

Migrations are a list of steps and the number of those taken, in a table of their own, and not Alembic's: three tables
that only this package writes need no environment, revision graph or autogeneration, and a step must run within the
transaction in which a sidecar opens the store, killed at any moment or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import (
    BLOB,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    cast,
    func,
    insert,
    inspect,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT

from treadle.history.errors import StoreError, Unusable

_LONG: Final = Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")

METADATA: Final = MetaData()

SCHEMA: Final = Table("treadle_schema", METADATA, Column("version", Integer, nullable=False))

PROFILES: Final = Table(
    "treadle_profiles",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("digest", String(32), nullable=False, unique=True),  # of the key: its texts are too long for an index
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
    Column("application", String(64), nullable=False, server_default=""),  # the last to change it: YARN's id, or empty
    Index("treadle_profiles_by_user", "user_digest", "last_seen_ms"),
    Index("treadle_profiles_by_age", "last_seen_ms"),
)

BY_APPLICATION: Final = Index("treadle_profiles_by_application", PROFILES.c.application)

ROW_BYTES: Final = 100
"""What a row takes beside its texts, about."""

STAGES: Final = Table(
    "treadle_stages",
    METADATA,
    Column(
        "profile",
        Integer,
        ForeignKey("treadle_profiles.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("document", _LONG, nullable=False),  # the rest of a StageProfile, JSON: see documents.py
)


SAMPLES: Final = Table(
    "treadle_samples",
    METADATA,
    Column("application", String(64), primary_key=True),  # YARN's id
    Column("seen_ms", BigInteger, nullable=False),
    Column("document", Text, nullable=False),  # where it stands with the gate, JSON: see samples.py
    Index("treadle_samples_by_age", "seen_ms"),
)


def _first(connection: Connection) -> None:
    METADATA.create_all(connection, tables=[PROFILES, STAGES])


def _samples(connection: Connection) -> None:
    METADATA.create_all(connection, tables=[SAMPLES])


def _sizes(connection: Connection) -> None:
    """Count what the profiles of each user and application take; a store that was just made has the columns."""
    known = {column["name"] for column in inspect(connection).get_columns(PROFILES.name)}
    for column, default in ((PROFILES.c.bytes, "0"), (PROFILES.c.application, "''")):
        if column.name not in known:
            type_ = column.type.compile(connection.dialect)
            added = f"ALTER TABLE {PROFILES.name} ADD COLUMN {column.name} {type_} DEFAULT {default} NOT NULL"
            connection.execute(text(added))
    if BY_APPLICATION.name not in {index["name"] for index in inspect(connection).get_indexes(PROFILES.name)}:
        BY_APPLICATION.create(connection)
    texts = ("user_name", "queue", "type", "name", "recent")
    own: ColumnElement[int] = sum((_octets(connection, PROFILES.c[name]) for name in texts), literal(ROW_BYTES))
    stages = select(func.coalesce(func.sum(_octets(connection, STAGES.c.document) + ROW_BYTES), 0))
    theirs = stages.where(STAGES.c.profile == PROFILES.c.id).scalar_subquery()
    connection.execute(update(PROFILES).values(bytes=own + theirs))


def _octets(connection: Connection, column: ColumnElement[str]) -> ColumnElement[int]:
    """Return how many bytes a text has: SQLite counts characters except of a blob."""
    return func.length(cast(column, BLOB)) if connection.dialect.name == "sqlite" else func.octet_length(column)


MIGRATIONS: list[Callable[[Connection], None]] = [_first, _samples, _sizes]
"""Step k brings a store from version k to version k + 1. A step that has been released is never changed.

Steps make tables as they are today, so a later one finds in a new store what it would add to an older one.
"""


def migrate(connection: Connection, store: str) -> None:
    """Bring a store up to date, or make its tables, within the connection's transaction.

    Raises:
        StoreError: a newer version made it, or the tables are not ours.
    """
    version = stored_version(connection, store)
    if version is None:
        SCHEMA.create(connection)
        connection.execute(insert(SCHEMA).values(version=0))
        version = 0
    for step in MIGRATIONS[version:]:
        step(connection)
    if version < len(MIGRATIONS):
        connection.execute(update(SCHEMA).values(version=len(MIGRATIONS)))


def stored_version(connection: Connection, store: str) -> int | None:
    """Return how many steps a store has behind it; None if it is empty.

    Raises:
        StoreError: as `migrate`.
    """
    tables = set(inspect(connection).get_table_names())
    if SCHEMA.name not in tables:
        if tables & {PROFILES.name, STAGES.name}:
            raise StoreError(store, Unusable.FOREIGN)
        return None
    version = connection.execute(select(SCHEMA.c.version)).scalar()
    if not isinstance(version, int) or version < 0:
        raise StoreError(store, Unusable.CORRUPTED, f"its version is {version!r}")
    if version > len(MIGRATIONS):
        raise StoreError(store, Unusable.NEWER, f"version {version}, this Treadle knows {len(MIGRATIONS)}")
    return version

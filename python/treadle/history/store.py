"""The history store: runs of recurring jobs in, profiles out, for several processes and safe against kills."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from threading import Lock
from typing import Annotated, Any, Final, NamedTuple, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy import Connection, Engine, Row, delete, insert, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from treadle.config.settings import JobHistory
from treadle.events import Samples, filled
from treadle.history.database import (
    DAY_MS,
    MIB,
    PROFILE_BYTES_MAX,
    PROFILES,
    READS,
    ROW_BYTES,
    SAMPLES,
    SAMPLES_MAX,
    STAGES,
    StoreError,
    Unusable,
    collided,
    connect,
    explained,
    prepare_tables,
    prune,
    prune_samples,
    remove,
    shown,
    used_bytes,
)
from treadle.history.documents import compact, stage_documents, stages_from_json
from treadle.history.profile import (
    JobProfile,
    JobRun,
    RecurrenceKey,
    application_of_run,
    merged,
    normalised_name,
    not_after,
    storable_run,
    user_digest,
    with_run,
)

TIME_MAX: Final = 2**62

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Amount = Annotated[float, Field(ge=0.0, le=TIME_MAX, allow_inf_nan=False)]
Squares = Annotated[float, Field(ge=0.0, le=1e300, allow_inf_nan=False)]


class Sample(NamedTuple):
    """One row of `treadle.events.Samples`, which documents the numbers; the application is identified by its ID."""

    sampling: Annotated[int, Field(ge=0, le=3)]
    stage: Count
    width: Count
    pilots: Count
    ended: Count
    total_ms: Amount
    squares: Squares
    mean_ms: Annotated[float, Field(ge=-1.0, le=TIME_MAX, allow_inf_nan=False)]
    error: Amount
    percent: Annotated[float, Field(ge=0.0, le=100.0, allow_inf_nan=False)]
    since_ms: Annotated[int, Field(ge=-TIME_MAX, le=TIME_MAX)]
    container_ms: Amount
    sized: Count = 0
    sized_ms: Amount = 0.0
    sized_bytes: Amount = 0.0
    sized_squares: Squares = 0.0
    sized_products: Squares = 0.0
    sized_duration_squares: Squares = 0.0


_SAMPLE: Final = TypeAdapter(Sample, config=ConfigDict(strict=True))


def sample_from_json(document: object) -> Sample:
    """Return the sample in a list of its fields; raises `ValueError` for anything else."""
    if not isinstance(document, list) or len(document) != len(Sample._fields):
        raise ValueError(f"a sample is a list of {', '.join(Sample._fields)}")
    try:
        return _SAMPLE.validate_python(document)
    except ValidationError as error:
        detail = error.errors()[0]
        name = Sample._fields[int(detail["loc"][0])]
        raise ValueError(f"{name} of a sample is {detail['input']!r}") from None


def sample_at(samples: Samples, row: int) -> Sample:
    """Return a row of an event."""
    return Sample(**{name: getattr(samples, name)[row].item() for name in Sample._fields})


def samples_event(rows: list[tuple[int, Sample]]) -> Samples:
    """Return the event of samples, each with the index of its application."""
    columns = zip(*((application, *sample) for application, sample in rows), strict=True)
    named: dict[str, Any] = dict(zip(("application", *Sample._fields), columns, strict=True))
    return filled(Samples, len(rows), **named)


PRUNE_EVERY: Final = 256
"""Number of runs between two checks of the total age and size."""

SAMPLES_AGE_DAYS: Final = 7
"""Samples of a job without changes for this time are removed: its end was not observed."""

_PARTS: Final = 16
"""Total age and size are checked after writing each such fraction of the store's size."""

_IDS_MAX: Final = 500
"""Maximum number of values in one statement, which databases limit."""

_ATTEMPTS: Final = 5
"""Maximum number of attempts of a transaction that conflicts with another one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the profiles whose key equals every given part; a name as in the key, or as submitted."""

    user: str | None = None
    queue: str | None = None
    type: str | None = None
    name: str | None = None

    def matches(self, key: RecurrenceKey) -> bool:
        """Return whether a key is selected."""
        return (
            (self.user is None or key.user == self.user)
            and (self.queue is None or key.queue == self.queue)
            and (self.type is None or key.type == self.type.upper())
            and (self.name is None or key.name in {self.name, normalised_name(self.name)})
        )


class ProfileStore:
    """Profiles by recurrence key. Safe for concurrent threads and processes.

    Each method is one transaction: after a kill it has happened completely or not at all. Each raises `StoreError` if
    the store is unusable, and leaves it unchanged.
    """

    def __init__(self, engine: Engine, name: str, retention: JobHistory) -> None:
        """Take an engine with current tables; see `open_store`."""
        self._engine = engine
        self.name = name
        """Its path or URL, without a password."""
        self._retention = retention
        self._unpruned_bytes = 0
        self._until_prune = 1  # check at the first run, since processes may restart often

    def put(self, run: JobRun, now_ms: int) -> bool:
        """Add a run to the profile of its key; return whether it added anything (see `with_run`)."""
        run = storable_run(run, now_ms)

        def change(before: JobProfile | None) -> JobProfile | None:
            return with_run(None if before is None else not_after(before, now_ms), run)

        return self._change(run.key, change, now_ms, application_of_run(run.id))

    def merge(self, profile: JobProfile, now_ms: int) -> bool:
        """Merge another store's profile of a key; return whether anything changed (see `profile.merged`)."""

        def change(before: JobProfile | None) -> JobProfile | None:
            other = not_after(profile, now_ms)
            after = other if before is None else merged(before, other)
            return None if after is before else after

        return self._change(profile.key, change, now_ms)

    def get(self, key: RecurrenceKey) -> JobProfile | None:
        """Return the profile of a key; None if there is none."""
        with self._reading() as connection:
            row = connection.execute(select(PROFILES).where(PROFILES.c.digest == key.digest())).first()
            return None if row is None else self._profile(connection, row)

    def profiles(self, selection: Selection | None = None) -> list[JobProfile]:
        """Return the profiles of a selection, or all, by user, queue, type and name."""
        chosen = selection or Selection()
        query = select(PROFILES)
        for column, value in (("user_name", chosen.user), ("queue", chosen.queue)):
            if value is not None:
                query = query.where(PROFILES.c[column] == value)
        with self._reading() as connection:
            rows = [row for row in connection.execute(query).all() if chosen.matches(_key(row))]
            profiles = [self._profile(connection, row) for row in rows]
        return sorted(profiles, key=lambda profile: profile.key)

    def keep_samples(self, changed: Mapping[str, Sample | None], now_ms: int) -> None:
        """Store pilot measurements of running jobs, by YARN's ID of the application; None: it has ended."""
        ids = sorted(changed)
        kept = [
            {"application": id_, "seen_ms": now_ms, "document": compact(list(sample))}
            for id_ in ids
            if (sample := changed[id_]) is not None
        ]

        def replace_all(connection: Connection) -> None:
            for at in range(0, len(ids), _IDS_MAX):
                some = ids[at : at + _IDS_MAX]
                connection.execute(delete(SAMPLES).where(SAMPLES.c.application.in_(some)))
            old = SAMPLES.c.seen_ms < now_ms - SAMPLES_AGE_DAYS * DAY_MS
            connection.execute(delete(SAMPLES).where(old))
            if kept:
                connection.execute(insert(SAMPLES), kept)
            prune_samples(connection, self._retention)

        self._write(replace_all)

    def samples(self) -> dict[str, Sample]:
        """Return the pilot measurements of the latest `SAMPLES_MAX` running jobs; damaged rows are skipped."""
        query = select(SAMPLES).order_by(SAMPLES.c.seen_ms.desc(), SAMPLES.c.application).limit(SAMPLES_MAX)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        samples = {}
        for row in rows:
            with suppress(ValueError):
                samples[str(row.application)] = sample_from_json(json.loads(row.document))
        return samples

    def forget(self, selection: Selection) -> int:
        """Remove the profiles of a selection; return their number."""

        def forget_all(connection: Connection) -> int:
            rows = connection.execute(select(PROFILES).order_by(PROFILES.c.id)).all()
            ids = [row.id for row in rows if selection.matches(_key(row))]
            remove(connection, ids)
            return len(ids)

        return self._write(forget_all)

    def prune(self, now_ms: int) -> int:
        """Remove profiles beyond the retention limits; return their number."""
        return self._write(lambda connection: prune(connection, self._retention, now_ms))

    def used_bytes(self) -> int:
        """Return the used size in bytes: pages of an SQLite file, else bytes of profiles."""
        with self._reading() as connection:
            return used_bytes(connection)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _change(
        self,
        key: RecurrenceKey,
        change: Callable[[JobProfile | None], JobProfile | None],
        now_ms: int,
        application: str = "",
    ) -> bool:
        """Replace the profile of a key by the result of ``change``, serialised across callers."""

        def replace_within(connection: Connection) -> int:
            query = select(PROFILES).where(PROFILES.c.digest == key.digest()).with_for_update()
            row = connection.execute(query).first()
            after = change(None if row is None else self._profile(connection, row))
            if after is None:
                return 0
            size = _put(connection, None if row is None else row.id, after, application)
            prune(connection, self._retention, now_ms, key.user, application)
            return size

        written = self._write(replace_within)
        self._until_prune -= 1
        self._unpruned_bytes += written
        if self._until_prune <= 0 or self._unpruned_bytes > self._retention.size_mb * MIB // _PARTS:
            self._until_prune, self._unpruned_bytes = PRUNE_EVERY, 0
            self.prune(now_ms)
        return written > 0

    def _profile(self, connection: Connection, row: Row[Any]) -> JobProfile:
        query = select(STAGES.c.document).where(STAGES.c.profile == row.id).order_by(STAGES.c.ordinal)
        try:
            stages = stages_from_json([json.loads(document) for (document,) in connection.execute(query)])
            recent = tuple((int(ended), str(run), int(took)) for ended, run, took in json.loads(row.recent))
        except (ValueError, TypeError) as error:
            raise StoreError(self.name, Unusable.CORRUPTED, f"row {row.id}: {error}") from error
        return JobProfile(_key(row), row.runs, row.first_seen_ms, row.last_seen_ms, recent, stages)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.execution_options(**{READS: True}).begin() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise explained(self.name, error) from error

    def _write(self, action: Callable[[Connection], T]) -> T:
        """Run an action in a transaction, again after a conflict."""
        attempt = 1
        while True:
            try:
                with self._engine.begin() as connection:
                    return action(connection)
            except (SQLAlchemyError, OSError) as error:
                if attempt == _ATTEMPTS or not collided(error):
                    raise explained(self.name, error) from error
            attempt += 1


def open_store(location: str, retention: JobHistory | None = None, *, read_only: bool = False) -> ProfileStore:
    """Open a store, or create it: a path of an SQLite file, or an SQLAlchemy URL.

    Raises:
        StoreError: it is unusable; with ``read_only`` also if it is missing.
    """
    name = shown(location)
    engine = connect(location, read_only=read_only)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                problem = str(connection.execute(text("PRAGMA quick_check(1)")).scalar() or "")
                if problem != "ok":
                    raise StoreError(name, Unusable.CORRUPTED, problem.partition("\n")[0])
            prepare_tables(connection, name, read_only=read_only)
    except Exception as error:
        engine.dispose()
        raise explained(name, error) from error
    return ProfileStore(engine, name, retention or JobHistory())


def _put(connection: Connection, number: int | None, profile: JobProfile, application: str) -> int:
    """Write a profile into the row of a number, None: into a new one; return the number of bytes written."""
    key, recent = profile.key, compact([list(run) for run in profile.recent])
    own = ROW_BYTES + sum(len(one.encode()) for one in (*key, recent))
    documents = _documents(profile, PROFILE_BYTES_MAX - own)
    size = own + _size_of(documents)
    values = {
        "digest": key.digest(),
        "user_digest": user_digest(key.user),
        "user_name": key.user,
        "queue": key.queue,
        "type": key.type,
        "name": key.name,
        "runs": profile.runs,
        "first_seen_ms": profile.first_seen_ms,
        "last_seen_ms": profile.last_seen_ms,
        "recent": recent,
        "application": application,
        "bytes": size,
    }
    if number is None:
        inserted = connection.execute(insert(PROFILES).values(**values)).inserted_primary_key
        assert inserted is not None, "a table with a primary key"
        number = inserted[0]
    else:
        connection.execute(update(PROFILES).where(PROFILES.c.id == number).values(**values))
    connection.execute(delete(STAGES).where(STAGES.c.profile == number))
    if documents:
        stages = [{"profile": number, "ordinal": at, "document": document} for at, document in enumerate(documents)]
        connection.execute(insert(STAGES), stages)
    return size


def _documents(profile: JobProfile, most_bytes: int) -> list[str]:
    """Return the documents of a profile's first stages, up to a total size in bytes."""
    documents = [compact(document) for document in stage_documents(profile)]
    if _size_of(documents) <= most_bytes:
        return documents
    sizes = accumulate(_size_of([document]) for document in documents)
    kept = sum(size <= most_bytes for size in sizes)
    # again: omitted stages must not be parents
    return [compact(document) for document in stage_documents(replace(profile, stages=profile.stages[:kept]))]


def _size_of(documents: Sequence[str]) -> int:
    return sum(len(document.encode()) + ROW_BYTES for document in documents)


def _key(row: Row[Any]) -> RecurrenceKey:
    return RecurrenceKey(row.user_name, row.queue, row.type, row.name)


_log = logging.getLogger(__name__)


class StoredProfiles:
    """Looks up profiles in the configured store, which another process or thread may write."""

    def __init__(self, settings: JobHistory) -> None:
        self._settings = settings
        self._store: ProfileStore | None = None
        self._lock = Lock()

    def find(self, key: RecurrenceKey) -> JobProfile | None:
        """Return a profile; None if there is none, or the store is unusable."""
        if not self._settings.store:
            return None
        try:
            with self._lock:
                self._store = self._store or open_store(self._settings.store, read_only=True)
            return self._store.get(key)
        except StoreError as error:
            _log.info("a DAG is planned without its history: %s", error)
            return None

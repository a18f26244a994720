"""A run of a job, stage by stage, and a profile: the aggregated runs of a recurring job.

Runs belong to one job if they have the same user, queue and framework, and names that differ only in variable parts: a
date, a run number, an ID. `normalised_name` removes these, as Graphene does (OSDI'16, section 7). Durations are in a
DDSketch (Masson, Rim and Lee, VLDB 2019): counts in buckets whose bounds grow by a constant factor, so that quantiles
are within `RELATIVE_ACCURACY`, and equal values in any order give equal sketches. The estimate is the median of the
means of the remembered runs, as in 3Sigma (SLearn, NSDI 2022, section 5.1.3); its error is measured by predicting each
of those runs from the runs before it.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from itertools import accumulate, repeat, takewhile
from math import log, sqrt
from operator import mul
from statistics import median, median_low
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import AfterValidator, Field
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_plain_validator_function, plain_serializer_function_ser_schema

RELATIVE_ACCURACY: Final = 0.01

DURATION_MAX_MS: Final = 10 * 366 * 86_400_000
"""Ten years: a longer duration was measured by a clock that was adjusted."""

_FACTOR: Final = (1 + RELATIVE_ACCURACY) / (1 - RELATIVE_ACCURACY)
# Multiplications only, which are rounded identically on every machine; logarithms are not.
_BOUNDS: Final = (
    *takewhile(lambda bound: bound < DURATION_MAX_MS, accumulate(repeat(_FACTOR), mul, initial=1.0)),
    float(DURATION_MAX_MS),
)
"""Bucket k > 0 holds values above bound k - 1 and up to bound k; bucket 0 holds 0 and 1."""


class DurationSketch:
    """Task durations: count, mean, deviation, extremes and quantiles, in milliseconds.

    Durations are whole milliseconds, so count, mean, deviation and extremes are exact.
    """

    __slots__ = ("_buckets", "_maximum", "_minimum", "_squares", "_sum", "count")

    def __init__(self, durations_ms: Iterable[int] = ()) -> None:
        self._buckets: dict[int, int] = {}
        self.count = self._sum = self._squares = 0
        """Number of durations."""
        self._minimum = self._maximum = 0
        for duration_ms in durations_ms:
            self.add(duration_ms)

    def add(self, duration_ms: int) -> None:
        """Add a duration.

        A negative one, from a clock that was set back, counts as 0; more than `DURATION_MAX_MS` counts as that.
        """
        value = max(0, min(int(duration_ms), DURATION_MAX_MS))
        bucket = bisect_left(_BOUNDS, value)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._minimum = min(self._minimum, value) if self.count else value
        self._maximum = max(self._maximum, value)
        self.count += 1
        self._sum += value
        self._squares += value * value

    def merge(self, other: Self) -> None:
        """Add all values of another sketch, which stays unchanged."""
        if other.count == 0:
            return
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._minimum = min(self._minimum, other._minimum) if self.count else other._minimum
        self._maximum = max(self._maximum, other._maximum)
        self.count += other.count
        self._sum += other._sum
        self._squares += other._squares

    @property
    def buckets(self) -> int:
        """Number of buckets, which determines the size."""
        return len(self._buckets)

    @property
    def mean_ms(self) -> float:
        """The mean; NaN without durations."""
        return self._sum / self.count if self.count else math.nan

    @property
    def deviation_ms(self) -> float:
        """The sample standard deviation; NaN with fewer than two durations."""
        if self.count < 2:
            return math.nan
        spread = self.count * self._squares - self._sum * self._sum
        return math.sqrt(spread / (self.count * (self.count - 1)))

    def quantile_ms(self, quantile: float) -> float:
        """Return the duration at a quantile from 0 to 1, within `RELATIVE_ACCURACY`; NaN without durations.

        Quantile q of n durations is the one at position ``floor(q * (n - 1))`` in ascending order, from 0.

        Raises:
            ValueError: ``quantile`` is out of range.
        """
        if not 0.0 <= quantile <= 1.0:
            raise ValueError(f"a quantile is from 0 to 1, not {quantile}")
        if self.count == 0:
            return math.nan
        place = math.floor(quantile * (self.count - 1))
        for bucket in sorted(self._buckets):
            place -= self._buckets[bucket]
            if place < 0:
                # equally far from both bounds of the bucket, relative to the value
                value = 2 * _BOUNDS[bucket] / (_FACTOR + 1) if bucket else 1.0
                return min(max(value, float(self._minimum)), float(self._maximum))
        raise AssertionError("the buckets hold as many durations as were counted")

    def to_json(self) -> dict[str, Any]:
        """Return a document for `from_json`."""
        return {
            "sum": self._sum,
            "squares": self._squares,
            "min": self._minimum,
            "max": self._maximum,
            "buckets": {str(bucket): self._buckets[bucket] for bucket in sorted(self._buckets)},
        }

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Return the sketch in a document.

        Raises:
            ValueError: it is not from `to_json`.
        """
        if not isinstance(document, Mapping) or not isinstance(document.get("buckets"), Mapping):
            raise ValueError("durations are a mapping with sum, squares, min, max and buckets")
        sketch = cls()
        sketch._buckets = dict(_bucket(key, count) for key, count in document["buckets"].items())
        sketch.count = sum(sketch._buckets.values())
        sketch._sum, sketch._squares = _whole(document, "sum"), _whole(document, "squares")
        sketch._minimum, sketch._maximum = _whole(document, "min"), _whole(document, "max")
        sketch._check()
        return sketch

    def _check(self) -> None:
        low, high, count = self._minimum, self._maximum, self.count
        if not low <= high <= DURATION_MAX_MS or not low * count <= self._sum <= high * count:
            raise ValueError("the sum of durations does not lie between their extremes")
        if not self._sum**2 <= count * self._squares <= count * self._sum * high:
            raise ValueError("the squares of durations contradict their sum")
        if count and {bisect_left(_BOUNDS, low), bisect_left(_BOUNDS, high)} != {
            min(self._buckets),
            max(self._buckets),
        }:
            raise ValueError("the extremes of durations contradict their buckets")

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        """Let pydantic read and write documents."""
        written = plain_serializer_function_ser_schema(cls.to_json)
        return no_info_plain_validator_function(cls.from_json, serialization=written)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DurationSketch) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DurationSketch(count={self.count}, mean_ms={self.mean_ms:.6g})"


def _bucket(key: object, count: object) -> tuple[int, int]:
    if not isinstance(key, str) or not key.isascii() or not key.isdigit() or len(key) > 4 or int(key) >= len(_BOUNDS):
        raise ValueError(f"{key!r} is not a bucket of durations")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < 2**53:
        raise ValueError(f"bucket {key} of durations holds {count!r}, which is not a count")
    return int(key), count


def _whole(document: Mapping[Any, Any], field: str) -> int:
    value = document.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{field} of durations must be a whole number, not {value!r}")
    return value


NUMBER_MAX: Final = 2**53 - 1
"""Largest integer that every reader of JSON represents exactly; larger reported numbers are clipped to it."""

RUN_ID: Final = re.compile(r"[\x21-\x7e]{1,200}")

# Limits of documents (`treadle.history.documents`); values created here satisfy them.
Whole = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
Unknown = Annotated[int, Field(ge=-1, le=NUMBER_MAX)]
"""-1: unknown."""
RunId = Annotated[str, Field(pattern=RUN_ID.pattern.join("^$"))]

_APPLICATION: Final = re.compile(r"(?:application|dag)_(\d{1,20})_(\d{1,20})(?:_\d{1,20})?", re.ASCII)


class Measured(StrEnum):
    """The unit whose durations a stage has."""

    TASKS = "tasks"
    CONTAINERS = "containers"
    """From a container's start to its end: not a task's duration where containers are reused (Tez) or kept (Spark)."""


@dataclass(frozen=True, slots=True, eq=False)
class StageRun:
    """A stage of a finished run."""

    name: str
    """The same in every run of the job: ``map``, ``reduce``, a vertex's name, ``executors``."""
    width: int
    """Number of tasks; of containers if tasks are unknown."""
    durations: DurationSketch
    """Durations of the successful attempts, one per task."""
    demand: Mapping[str, int] = field(default_factory=dict)
    """Resources of a container (``memory-mb``, ``vcores``, ...); empty if unknown."""
    parents: tuple[str, ...] = ()
    """Names of the stages that provide its input."""
    input_bytes: int | None = None
    """Total input of its tasks; None if unknown."""
    measured: Measured = Measured.TASKS
    one_to_one: tuple[str, ...] = ()
    """The parents whose task i provides input for task i only."""
    hint_ms: int | None = None
    """Task duration predicted for the engine from history; None without one."""
    retried: int | None = None
    """Attempts that failed, or succeeded after another success of their task; None if unknown."""
    speculative: int | None = None
    """Speculative attempts; None if unknown."""
    alone: DurationSketch | None = None
    """Durations of the same tasks from the end of their parents, where they started before; None if unknown."""

    def known(self) -> dict[str, Any]:
        """Return the numbers that may be unknown, by field, as far as they are known."""
        names = ("input_bytes", "hint_ms", "retried", "speculative")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True, eq=False)
class JobRun:
    """A successful run of a job. Stages are in an order with parents first."""

    key: RecurrenceKey
    id: str
    """ID of the run: ``application_<cluster timestamp>_<id>``, or the framework's own without YARN."""
    started_ms: int
    ended_ms: int
    stages: tuple[StageRun, ...]


def storable_run(run: JobRun, now_ms: int) -> JobRun:
    """Return a run within the store's limits of texts and numbers, with an end time up to now."""
    name = run.id
    if not RUN_ID.fullmatch(name):
        name = f"sha256:{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}"
    ended_ms = _bounded(min(run.ended_ms, now_ms))
    # a name is repeated with each outgoing edge: a hundred times for a stage with a hundred children
    stored = cache(storable)
    stages = tuple(
        replace(
            stage,
            name=stored(stage.name),
            width=_bounded(stage.width),
            demand={storable(resource): _bounded(amount) for resource, amount in stage.demand.items()},
            parents=tuple(stored(parent) for parent in stage.parents),
            one_to_one=tuple(stored(parent) for parent in stage.one_to_one),
            **dict[str, Any]((name, _bounded(value)) for name, value in stage.known().items()),
        )
        for stage in run.stages
    )
    key = RecurrenceKey(*map(storable, run.key))
    return JobRun(key, name, min(_bounded(run.started_ms), ended_ms), ended_ms, stages)


def application_of_run(run: str) -> str:
    """Return YARN's ID of the application of a run ID; empty if it has none."""
    match = _APPLICATION.fullmatch(run)
    return f"application_{match[1]}_{match[2]}" if match else ""


def size_of_run(run: JobRun) -> int:
    """Return a run's approximate size in memory; a name shared by several stages counts once."""
    stages = sum(
        700 + 2 * len(stage.name) + 16 * (len(stage.parents) + len(stage.one_to_one)) + 100 * len(stage.demand)
        for stage in run.stages
    )
    sketches = (sketch for stage in run.stages for sketch in (stage.durations, stage.alone) if sketch is not None)
    return stages + 110 * sum(sketch.buckets for sketch in sketches)


def _bounded(number: int) -> int:
    return max(0, min(int(number), NUMBER_MAX))


NAME_CHARACTERS_MAX: Final = 1000
"""Maximum length of a job's name in UTF-16 units: the shim sends no more, so longer ones from elsewhere are cut too."""

_TAG = re.compile(r"treadle:[a-z0-9._-]{1,90}")
_WORD = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_TIME = r"\d{2}[:_.-]?\d{2}(?:[:_.-]?\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?"
_CHANGING: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
        r"(?:application|job)_\d+_\d+",
        rf"(?<!\d)\d{{4}}[-_/.]?\d{{2}}[-_/.]?\d{{2}}(?:[T\s_-]?{_TIME})?(?!\d)",
        r"(?<!\d)\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?!\d)",
        r"(?<!\d)\d{10}(?:\d{3})?(?!\d)",
        rf"{_WORD[0]}(?:0x)?[0-9a-f]{{8,}}{_WORD[1]}",
        r"[-_#(]?\d+\)?\s*\Z",
    )
)
"""Variable parts of names, in order of removal: UUIDs, YARN's IDs, dates with or without a time, times, seconds or
milliseconds since 1970, long hexadecimal numbers, a number at the end."""

_SEPARATORS = re.compile(r"[\s_\-#./:,;|()\[\]{}\x00-\x1f\x7f]+")


class RecurrenceKey(NamedTuple):
    """The identity of a recurring job."""

    user: str
    queue: str
    """The leaf's own name: job histories often lack the path above it."""
    type: str
    """Upper case, as YARN's application types: MAPREDUCE, TEZ, SPARK."""
    name: str
    """Without variable parts."""

    def digest(self) -> str:
        """Return 32 hexadecimal digits that replace the key where its texts would be too long."""
        content = "\0".join(f"{len(text)}:{text}" for text in self)
        return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:32]


def user_digest(user: str) -> str:
    """Return 32 hexadecimal digits that replace a user's name in an index."""
    return RecurrenceKey(user, "", "", "").digest()


def recurrence_key(user: str, queue: str, type_: str, name: str, tags: Sequence[str] = ()) -> RecurrenceKey:
    """Return the key of a job from its YARN properties.

    Args:
        user: the submitting user
        queue: its queue; only the last part of a path counts
        type_: the application type
        name: any text of any length
        tags: the application's; ``treadle:KEY`` replaces the name (the first in alphabetical order)
    """
    leaf = storable(queue).rpartition(".")[2]
    for tag in sorted(tags):
        if match := _TAG.fullmatch(tag.lower()):
            return RecurrenceKey(storable(user), leaf, storable(type_).upper(), match[0])
    return RecurrenceKey(storable(user), leaf, storable(type_).upper(), normalised_name(name))


def normalised_name(name: str) -> str:
    """Return a job's name without variable parts, in lower case, words separated by one space each.

    Takes time linear in the name, of which only the first `NAME_CHARACTERS_MAX` count.
    """
    text = unicodedata.normalize("NFC", storable(name))
    for pattern in _CHANGING:
        text = pattern.sub(" ", text)
    return _SEPARATORS.sub(" ", text).strip().lower()


def storable(text: str) -> str:
    """Return a text valid for every database: well-formed Unicode without NUL, cut at `NAME_CHARACTERS_MAX`."""
    units = text[:NAME_CHARACTERS_MAX].encode("utf-16-le", "surrogatepass")[: 2 * NAME_CHARACTERS_MAX]
    return units.decode("utf-16-le", "replace").replace("\0", " ")


Words = Annotated[str, AfterValidator(storable)]


@dataclass(slots=True, eq=False)
class SparkStage:
    """A stage with executed tasks; Spark may list it again under other IDs."""

    number: int
    """Unique number of the stage."""
    first_id: int
    """The smallest of its IDs in Spark."""
    name: str
    """Its call site."""
    tasks: int = 0
    parents: tuple[int, ...] = ()
    """Numbers of the stages that provide its input."""
    durations: DurationSketch = field(default_factory=DurationSketch)
    input_bytes: int = 0
    retried: int = 0
    """Attempts that failed, or succeeded after another success of their task."""
    speculative: int = 0


def stage_runs(stages: Iterable[SparkStage]) -> tuple[StageRun, ...]:
    """Return stages as those of a run, in the order of Spark's IDs; unknown parents are omitted."""
    ordered = sorted(stages, key=lambda stage: (stage.first_id, stage.number))
    # call site and position: two stages may share a call site
    names = {stage.number: f"{at} {_call_site(stage.name)}".strip() for at, stage in enumerate(ordered)}
    return tuple(
        StageRun(
            names[stage.number],
            stage.tasks,
            stage.durations,
            {},
            tuple(names[parent] for parent in stage.parents if parent in names and parent != stage.number),
            input_bytes=stage.input_bytes,
            retried=stage.retried,
            speculative=stage.speculative,
        )
        for stage in ordered
    )


def _call_site(name: str) -> str:
    """Return a call site without its file's folder, which in cluster mode differs from run to run."""
    call, at, place = name.rpartition(" at ")
    return f"{call}{at}{place.rpartition('/')[2]}" if at else name


RECENT_MAX: Final = 20
"""Number of runs remembered individually, so that an estimator can weigh the latest more."""

STAGES_MAX: Final = 1000
"""Maximum number of stages of a profile; further ones are dropped."""

PARENTS_MAX: Final = 100
RESOURCES_MAX: Final = 32


class RecentRun(NamedTuple):
    """A stage in one run."""

    ended_ms: Whole
    run: RunId
    width: Whole
    mean_ms: Unknown
    """Mean task duration; -1 if none was measured."""
    input_bytes: Unknown
    """-1 if unknown."""
    hint_ms: Unknown = -1
    """Task duration predicted for the engine from history; -1 without one."""
    retried: Unknown = -1
    """Attempts that failed, or succeeded after another success of their task; -1 if unknown."""
    speculative: Unknown = -1
    """Speculative attempts; -1 if unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class StageProfile:
    """A stage in all runs."""

    name: Words
    position: Whole
    """Position among the stages: parents come first."""
    durations: Annotated[DurationSketch, Field(alias="durations_ms")]
    runs: Whole
    """Number of runs with this stage."""
    recent: Annotated[tuple[RecentRun, ...], Field(max_length=RECENT_MAX)]
    """The latest `RECENT_MAX` of them, oldest first."""
    demand: Annotated[Mapping[Words, Whole], Field(max_length=RESOURCES_MAX)] = field(default_factory=dict)
    parents: Annotated[tuple[Words, ...], Field(max_length=PARENTS_MAX)] = ()
    measured: Measured = Measured.TASKS
    one_to_one: Annotated[tuple[Words, ...], Field(max_length=PARENTS_MAX)] = ()
    """The parents whose task i provides input for task i only."""

    @property
    def width(self) -> int:
        """The median of the recent widths, the lower of two."""
        return median_low([run.width for run in self.recent]) if self.recent else 0

    @property
    def input_bytes(self) -> int | None:
        """The median of the known recent inputs, the lower of two; None without any."""
        known = [run.input_bytes for run in self.recent if run.input_bytes >= 0]
        return median_low(known) if known else None


@dataclass(frozen=True, slots=True, eq=False)
class JobProfile:
    """All runs of a recurring job."""

    key: RecurrenceKey
    runs: Whole
    first_seen_ms: Whole
    last_seen_ms: Whole
    """End of the first and the latest known run."""
    recent: Annotated[tuple[tuple[Whole, RunId, Whole], ...], Field(max_length=RECENT_MAX)]
    """End, ID and duration in ms of the latest `RECENT_MAX` runs, oldest first."""
    stages: Annotated[tuple[StageProfile, ...], Field(max_length=STAGES_MAX)]

    @property
    def tasks(self) -> int:
        """Number of tasks of a run, over stages with measured tasks; without any, number of containers."""
        of_tasks = [stage for stage in self.stages if stage.measured is Measured.TASKS]
        return sum(stage.width for stage in of_tasks or self.stages)


def with_run(profile: JobProfile | None, run: JobRun) -> JobProfile | None:
    """Return a profile with one more run; None if it adds nothing.

    A stage of a run is counted once, even if the run is reported by the live engine and by an importer. A run older
    than the `RECENT_MAX` remembered ones could have been counted already, so it is ignored. A stage that none of those
    had is dropped.

    A Tez DAG is a run, and so is an application without known DAGs: a DAG replaces the run of its application.
    """
    names = {name for _, name, _ in profile.recent} if profile else set[str]()
    application = application_of_run(run.id)
    by_dags = run.id == application and any(name != run.id and application_of_run(name) == run.id for name in names)
    known = run.id in names or by_dags
    if profile and _is_older(run, [ended_ms for ended_ms, _, _ in profile.recent]) and not known:
        return None
    stages = {stage.name: stage for stage in profile.stages} if profile else {}
    changed = False
    for position, stage_run in enumerate(run.stages[:STAGES_MAX]):
        before = stages.get(stage_run.name)
        after = _with_stage(before, position, run, stage_run)
        if after is not None and (before is not None or len(stages) < STAGES_MAX):
            stages[stage_run.name] = after
            changed = True
    if not changed:
        return None
    ordered = tuple(sorted(stages.values(), key=lambda stage: (stage.position, stage.name)))
    this = (run.ended_ms, run.id, max(0, run.ended_ms - run.started_ms))
    if profile is None:
        return JobProfile(run.key, 1, run.ended_ms, run.ended_ms, (this,), ordered)
    if known:
        return replace(profile, stages=ordered)
    others = [each for each in profile.recent if each[1] != application]
    recent = tuple(sorted((*others, this)))[-RECENT_MAX:]
    seen = {name for _, name, _ in recent}
    seen |= {application_of_run(name) for name in seen}
    return JobProfile(
        run.key,
        profile.runs + 1 - (len(profile.recent) - len(others)),
        min(profile.first_seen_ms, run.ended_ms),
        max(profile.last_seen_ms, run.ended_ms),
        recent,
        tuple(stage for stage in ordered if any(one.run in seen for one in stage.recent)),
    )


def not_after(profile: JobProfile, now_ms: int) -> JobProfile:
    """Return a profile without times in the future: a clock that was ahead must not make later runs old."""
    if profile.last_seen_ms <= now_ms:
        return profile
    stages = (
        replace(stage, recent=tuple(sorted(run._replace(ended_ms=min(run.ended_ms, now_ms)) for run in stage.recent)))
        for stage in profile.stages
    )
    return replace(
        profile,
        first_seen_ms=min(profile.first_seen_ms, now_ms),
        last_seen_ms=now_ms,
        recent=tuple(sorted((min(ended_ms, now_ms), run, took_ms) for ended_ms, run, took_ms in profile.recent)),
        stages=tuple(stages),
    )


def merged(one: JobProfile, other: JobProfile) -> JobProfile:
    """Return the combination of two stores' profiles of one key.

    Runs in both must not count twice and cannot be removed from a sketch. So if two profiles share a remembered run,
    the one with more runs is returned, ``one`` if equal; and the newer one if it has dropped runs, which may include
    the older one's.
    """
    if {run for _, run, _ in one.recent} & {run for _, run, _ in other.recent}:
        return other if other.runs > one.runs else one
    newer, older = (one, other) if one.last_seen_ms >= other.last_seen_ms else (other, one)
    if newer.runs > len(newer.recent) and newer.recent and older.last_seen_ms < newer.recent[0][0]:
        return newer
    stages = {stage.name: stage for stage in older.stages}
    for stage in newer.stages:
        stages[stage.name] = _both(stage, stages[stage.name]) if stage.name in stages else stage
    ordered = sorted(stages.values(), key=lambda stage: (stage.position, stage.name))[:STAGES_MAX]
    return JobProfile(
        one.key,
        one.runs + other.runs,
        min(one.first_seen_ms, other.first_seen_ms),
        newer.last_seen_ms,
        tuple(sorted((*one.recent, *other.recent)))[-RECENT_MAX:],
        tuple(ordered),
    )


def _with_stage(before: StageProfile | None, position: int, run: JobRun, stage: StageRun) -> StageProfile | None:
    mean_ms = round(stage.durations.mean_ms) if stage.durations.count else -1
    recent = RecentRun(run.ended_ms, run.id, stage.width, mean_ms, **{"input_bytes": -1} | stage.known())
    demand, parents = dict(sorted(stage.demand.items())[:RESOURCES_MAX]), stage.parents[:PARENTS_MAX]
    single = tuple(parent for parent in parents if parent in stage.one_to_one)
    durations = _sum(stage.durations)
    this = StageProfile(stage.name, position, durations, 1, (recent,), demand, parents, stage.measured, single)
    if before is None:
        return this
    if any(each.run == run.id for each in before.recent):
        return None
    if _is_older(run, [each.ended_ms for each in before.recent]):
        return None
    if stage.measured is not before.measured:
        # task durations replace container durations and are not mixed with them
        return None if stage.measured is Measured.CONTAINERS else replace(this, runs=before.runs + 1)
    latest = not before.recent or recent >= before.recent[-1]
    return _both(this, before) if latest else _both(before, this)


def _is_older(run: JobRun, recent_ended_ms: Sequence[int]) -> bool:
    """Return whether a run ended before all remembered ones, and others had to be dropped."""
    return len(recent_ended_ms) == RECENT_MAX and run.ended_ms < recent_ended_ms[0]


def _both(newer: StageProfile, older: StageProfile) -> StageProfile:
    if newer.measured is not older.measured:
        return newer if newer.measured is Measured.TASKS else older
    return replace(
        newer,
        durations=_sum(newer.durations, older.durations),
        runs=newer.runs + older.runs,
        recent=tuple(sorted((*newer.recent, *older.recent)))[-RECENT_MAX:],
        demand=newer.demand or older.demand,
    )


def _sum(*sketches: DurationSketch) -> DurationSketch:
    total = DurationSketch()
    for sketch in sketches:
        total.merge(sketch)
    return total


SIGMA_MAX: Final = 10.0
"""Maximum standard deviation of a logarithm."""


class Prediction(NamedTuple):
    """A prediction for a stage from earlier runs."""

    duration_ms: int
    deviation_ms: int
    """Standard deviation of the estimate; -1 after a single run, or for containers of another size."""
    runs: int
    """Number of runs used."""


def predicted(stage: StageProfile, demand: Mapping[str, int]) -> Prediction | None:
    """Return the predicted task duration of a stage; None if none was measured.

    Args:
        stage: its profile
        demand: current resources of its containers; if the latest runs had others, durations may differ, so that the
            deviation is unknown
    """
    means_ms = [run.mean_ms for run in stage.recent if run.mean_ms > 0]
    if not means_ms:
        return None
    duration_ms = max(1, round(median(means_ms)))
    alike = not stage.demand or all(demand.get(name, amount) == amount for name, amount in stage.demand.items())
    deviation_ms = round(duration_ms * _sigma(means_ms)) if alike and len(means_ms) > 1 else -1
    return Prediction(duration_ms, deviation_ms, len(means_ms))


def _sigma(means_ms: Sequence[int]) -> float:
    """Return the root mean square of the logarithms of past errors, wider for fewer errors."""
    runs = len(means_ms)
    errors = (log(median(means_ms[:at]) / means_ms[at]) for at in range(1, runs))
    square = sum(error * error for error in errors) / (runs - 1)
    return min(SIGMA_MAX, sqrt(square * runs / (runs - 1)))

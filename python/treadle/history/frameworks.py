"""Readers of the histories of MapReduce, Tez and Spark.

A duration is that of the attempt, from its start in a container to its end. MapReduce's events are those of Hadoop's
``org.apache.hadoop.mapreduce.jobhistory`` (3.4.2), in binary form, one after another, or as one JSON line each, in
which Avro names the members of unions. The Avro schema is part of each untrusted file. So it must not contain: a
recursive type, which a reader would follow until its stack ends; values without a size, any number of which fits into
some bytes; and kinds of types that no history event has. A file of Tez's SimpleHistoryLoggingService
(``history.txt.<attempt>``) holds JSON objects, each followed by a byte 1 and a line end, about the DAGs of one
application master.

In Spark's event logs adaptive execution submits a query as several jobs, each of which lists the previous stages again,
with other IDs, and skips them. Stages with an equal set of RDD IDs are identical; stages that never ran and equal none
that did are omitted.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from xml.etree import ElementTree

from treadle.errors import UserError, install_extra
from treadle.files import Unpacker, UnpackError
from treadle.history.outcome import (
    LINE_BYTES_MAX,
    BrokenHistoryError,
    Files,
    UnfinishedError,
    items,
    lines,
    mapping,
    number,
    tags_of,
    text,
)
from treadle.history.profile import DurationSketch, JobRun, Measured, SparkStage, StageRun, recurrence_key, stage_runs

DEPTH_MAX: Final = 32
"""Maximum nesting of types; Hadoop's is 12."""
TYPES_MAX: Final = 2_000
"""Maximum number of types mentioned in a schema; Hadoop's mentions about 400."""

PRIMITIVES: Final = frozenset({"string", "int", "long", "boolean", "float", "double", "bytes"})
_MEMBERS: Final = PRIMITIVES | {"array", "map"}
_NAME = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]{0,199}\.){0,20}([A-Za-z_][A-Za-z0-9_]{0,199})")


class _Schema:
    """Reads a schema into an equivalent one without any other content.

    Types go by their names without namespaces: Hadoop's are all of one.
    """

    def __init__(self) -> None:
        self._known = set(PRIMITIVES)
        """Names of completely read types: none of them is recursive."""
        self._types = 0

    def type(self, schema: object, depth: int = 0) -> Any:
        self._types += 1
        if depth > DEPTH_MAX or self._types > TYPES_MAX:
            raise _wrong(f"types within types more than {DEPTH_MAX} deep, or more than {TYPES_MAX} of them")
        if isinstance(schema, list):
            # a union takes a byte to select its member
            return [member if member == "null" else self.type(member, depth + 1) for member in schema]
        if isinstance(schema, str):
            if (name := _name(schema)) not in self._known:
                raise _wrong(f"a type {name[:40]!r} without size, within itself, or used before it is described")
            return name
        fields = mapping(schema)
        kind = fields.get("type")
        if kind == "record":
            members = [
                {"name": _name(mapping(field).get("name")), "type": self.type(mapping(field).get("type"), depth + 1)}
                for field in items(fields.get("fields"))
            ]
            if not members:
                raise _wrong("values that take no space")
            return {"type": "record", "name": self._new(fields), "fields": members}
        if kind == "enum":
            symbols = [_name(symbol) for symbol in items(fields.get("symbols"))]
            return {"type": "enum", "name": self._new(fields), "symbols": symbols}
        if kind == "array":
            return {"type": "array", "items": self.type(fields.get("items"), depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.type(fields.get("values"), depth + 1)}
        if isinstance(kind, str) and kind not in PRIMITIVES:
            raise _wrong(f"a type {kind[:40]!r}")
        return self.type(kind, depth + 1)

    def _new(self, fields: Mapping[str, Any]) -> str:
        name = _name(fields.get("name"))
        if name in self._known:
            raise _wrong(f"two types called {name[:40]!r}")
        self._known.add(name)
        return name


def _name(name: object) -> str:
    """Return a name without its namespace."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise _wrong(f"something called {str(name)[:40]!r}")
    return match[1]


def _wrong(what: str) -> BrokenHistoryError:
    return BrokenHistoryError(f"its schema is not that of events: it has {what}")


SCHEMA_BYTES_MAX: Final = 1 << 20
CONFIGURATION_BYTES_MAX: Final = 32 << 20

JOB: Final = re.compile(r"job_\d{1,19}_\d{1,10}", re.ASCII)


def read_jhist(path: Path, files: Files | None = None) -> JobRun:
    """Read a ``.jhist`` file, and the ``_conf.xml`` of its job if that is next to it.

    Args:
        path: of the file
        files: opens it and the files next to it

    Raises:
        BrokenHistoryError: the file is invalid, or cut off.
        UnfinishedError: the job has not succeeded.
        OSError: the file cannot be read.
    """
    files = files or Files()
    history = JobHistory()
    with files.open(path) as stream:
        for kind, event in _events(stream):
            history.take(kind, event)
    if not history.id:
        raise BrokenHistoryError("no event says which job it is of (JOB_SUBMITTED)")
    if not JOB.fullmatch(history.id):
        raise BrokenHistoryError(f"{history.id[:60]!r} is not an id of a job")
    try:
        with files.open(path.with_name(f"{history.id}_conf.xml")) as stream:
            configuration = _read_configuration(stream)
    except FileNotFoundError:
        configuration = {}
    return history.run(configuration)


def _read_configuration(stream: BinaryIO) -> dict[str, str]:
    """Return the entries of a Hadoop configuration file."""
    content = stream.read(CONFIGURATION_BYTES_MAX + 1)
    if len(content) > CONFIGURATION_BYTES_MAX:
        raise BrokenHistoryError(f"its configuration is larger than {CONFIGURATION_BYTES_MAX} bytes")
    try:
        root = ElementTree.fromstring(content)  # noqa: S314 (expat bounds what entities may grow to)
    except ElementTree.ParseError as error:
        raise BrokenHistoryError(f"what should be its configuration is none: {error}") from error
    return {entry.findtext("name") or "": entry.findtext("value") or "" for entry in root.iter("property")}


def _events(stream: BinaryIO) -> Iterator[tuple[str, Mapping[str, Any]]]:
    form = stream.readline(64).strip()
    schema = stream.readline(SCHEMA_BYTES_MAX)
    if form == b"Avro-Binary":
        yield from _binary(schema, cast("io.BufferedReader", stream))
    elif form == b"Avro-Json":
        yield from _json(stream)
    else:
        raise BrokenHistoryError(f"begins with {form[:20]!r}, not with Avro-Binary or Avro-Json")


def _binary(schema: bytes, stream: io.BufferedReader) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        import fastavro  # only here: an extra
    except ImportError:
        raise UserError(
            f"binary .jhist files need fastavro; {install_extra('history')}, or have jobs write "
            "mapreduce.jobhistory.jhist.format=json"
        ) from None
    start = at = stream.tell()
    try:
        parsed = fastavro.parse_schema(_Schema().type(json.loads(schema)))
        while stream.peek(1):
            at = stream.tell()
            event = mapping(fastavro.schemaless_reader(stream, parsed, None))
            yield text(event.get("type")), mapping(event.get("event"))
    except BrokenHistoryError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # fastavro raises any exception for invalid data
        raise BrokenHistoryError(f"no event at byte {at - start} of the events: {error or 'cut off'}") from error


def _json(stream: BinaryIO) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for at, line in lines(stream):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"line {at + 2}: no event: {error}") from error
        yield text(mapping(event).get("type")), mapping(_without_unions(mapping(event).get("event")))


def _without_unions(value: object) -> object:
    """Return a value without the names with which Avro's JSON distinguishes the members of unions."""
    if isinstance(value, list):
        return [_without_unions(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name in _MEMBERS or name.startswith("org.apache.hadoop."):
            return _without_unions(inner)
    return {name: _without_unions(inner) for name, inner in value.items()}


MAP, REDUCE = "map", "reduce"
STAGES = {"MAP": MAP, "REDUCE": REDUCE}
"""Names of stages by the frameworks' types of tasks; the live engine uses them too."""

_TASK_COUNTER = "org.apache.hadoop.mapreduce.TaskCounter"
_FILE_SYSTEM = "org.apache.hadoop.mapreduce.FileSystemCounter"
_INPUT_FORMAT = "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter"


@dataclass(slots=True)
class JobHistory:
    """State of one job after the events so far."""

    id: str = ""
    name: str = ""
    user: str = ""
    queue: str = ""
    state: str = ""
    submitted_ms: int = 0
    finished_ms: int = 0
    inputs: dict[str, int] = field(default_factory=dict)
    started_ms: dict[str, int] = field(default_factory=dict)
    """Start times in ms, by attempt."""
    took_ms: dict[str, int] = field(default_factory=dict)
    """Durations in ms, by successful attempt."""
    tasks: dict[str, dict[str, str]] = field(default_factory=lambda: {MAP: {}, REDUCE: {}})
    """By stage: the successful attempt of each finished task."""

    def take(self, kind: str, event: Mapping[str, Any]) -> None:
        """Process one event of a kind such as ``MAP_ATTEMPT_FINISHED``; other kinds are ignored."""
        if kind == "JOB_SUBMITTED":
            self.id, self.name = text(event.get("jobid")), text(event.get("jobName"))
            self.user, self.queue = text(event.get("userName")), text(event.get("jobQueueName"))
            self.submitted_ms = number(event.get("submitTime"))
        elif kind == "JOB_QUEUE_CHANGED":
            self.queue = text(event.get("jobQueueName")) or self.queue
        elif kind == "JOB_FINISHED":
            self.state, self.finished_ms = "SUCCEEDED", number(event.get("finishTime"))
            self.inputs = {
                MAP: _map_input(event.get("mapCounters")),
                REDUCE: _counts(event.get("reduceCounters"), _TASK_COUNTER).get("REDUCE_SHUFFLE_BYTES", 0),
            }
        elif kind in {"JOB_FAILED", "JOB_KILLED", "JOB_ERROR"}:
            self.state = kind.removeprefix("JOB_")
        elif kind in {"MAP_ATTEMPT_STARTED", "REDUCE_ATTEMPT_STARTED"}:
            self.started_ms[text(event.get("attemptId"))] = number(event.get("startTime"))
        elif kind in {"MAP_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_FINISHED", "TASK_FINISHED"}:
            # a second speculative attempt may have finished too: the task, which comes last, names the valid one
            attempt = text(event.get("attemptId" if kind != "TASK_FINISHED" else "successfulAttemptId"))
            if kind != "TASK_FINISHED" and text(event.get("taskStatus")) == "SUCCEEDED" and attempt in self.started_ms:
                self.took_ms[attempt] = number(event.get("finishTime")) - self.started_ms[attempt]
            stage = STAGES.get(text(event.get("taskType")))
            if stage is not None and attempt in self.took_ms:
                self.tasks[stage][text(event.get("taskid"))] = attempt

    def _alone(self, reduces: Iterable[str]) -> DurationSketch:
        """Return durations of reduces from the end of the last map on: before that they wait for map output."""
        maps_ms = max((self.started_ms[each] + self.took_ms[each] for each in self.tasks[MAP].values()), default=0)
        return DurationSketch(
            self.took_ms[each] - min(max(maps_ms - self.started_ms[each], 0), self.took_ms[each]) for each in reduces
        )

    def run(self, configuration: Mapping[str, str]) -> JobRun:
        """Return the job as a run.

        Args:
            configuration: the job's, if known: it has resources of tasks and tags

        Raises:
            UnfinishedError: it has not succeeded.
        """
        if self.state != "SUCCEEDED":
            raise UnfinishedError(f"{self.id or 'the job'} {self.state.lower() or 'has not ended'}")
        stages = []
        for stage, parents in ((MAP, ()), (REDUCE, (MAP,))):
            if tasks := self.tasks[stage].values():
                durations = DurationSketch(self.took_ms[attempt] for attempt in tasks if attempt in self.took_ms)
                alone = self._alone(tasks) if parents and self.started_ms else None
                demand, read = _demand(configuration, stage), self.inputs.get(stage)
                stages.append(StageRun(stage, len(tasks), durations, demand, parents, read, alone=alone))
        tags = tags_of(configuration.get("mapreduce.job.tags"))
        key = recurrence_key(self.user, self.queue, "MAPREDUCE", self.name, tags)
        application = self.id.replace("job_", "application_", 1)
        return JobRun(key, application, self.submitted_ms, self.finished_ms, tuple(stages))


def _demand(configuration: Mapping[str, str], stage: str) -> dict[str, int]:
    """Return the resources of a stage's tasks in a job's configuration, if any."""
    demand = {}
    for resource, keys in (
        ("memory-mb", (f"mapreduce.{stage}.resource.memory-mb", f"mapreduce.{stage}.memory.mb")),
        ("vcores", (f"mapreduce.{stage}.resource.vcores", f"mapreduce.{stage}.cpu.vcores")),
    ):
        amount = next((value for key in keys if (value := number(configuration.get(key), -1)) > 0), None)
        if amount is not None:
            demand[resource] = amount
    return demand


def _map_input(counters: object) -> int:
    """Return the bytes read by maps: the input format's counter, else those of all but the local file systems."""
    counted = _counts(counters, _INPUT_FORMAT).get("BYTES_READ", 0)
    return counted or sum(
        amount
        for name, amount in _counts(counters, _FILE_SYSTEM).items()
        if name.endswith("_BYTES_READ") and name != "FILE_BYTES_READ"
    )


def _counts(counters: object, name: str) -> dict[str, int]:
    """Return the counters of a group."""
    for group in items(mapping(counters).get("groups")):
        if text(mapping(group).get("name")) == name:
            counts = [mapping(count) for count in items(mapping(group).get("counts"))]
            return {text(count.get("name")): number(count.get("value")) for count in counts}
    return {}


_END = b"\x01"
_ID = re.compile(r"(?:dag|vertex|task|attempt)_(\d+_\d+_\d+)(?:_(\d+))?(?:_(\d+))?(?:_(\d+))?")
_INPUT_COUNTERS = {"HDFS_BYTES_READ", "S3A_BYTES_READ", "SHUFFLE_BYTES"}


@dataclass(slots=True)
class _Vertex:
    name: str = ""
    tasks: int = 0
    took_ms: dict[str, int] = field(default_factory=dict)
    """By task, in ms."""
    input_bytes: int = 0


@dataclass(slots=True)
class _Dag:
    name: str = ""
    user: str = ""
    queue: str = ""
    state: str = ""
    submitted_ms: int = 0
    ended_ms: int = 0
    plan: Mapping[str, Any] = field(default_factory=dict)
    vertices: dict[str, _Vertex] = field(default_factory=dict)


def read_tez_history(path: Path, files: Files | None = None) -> tuple[list[JobRun], list[str]]:
    """Return the successful DAGs of a history file, and why the others are omitted.

    Raises:
        BrokenHistoryError: it is invalid, or cut off.
        OSError: it cannot be read.
    """
    dags: dict[str, _Dag] = {}
    at = 0
    for at, entity in _entities(path, files or Files()):
        try:
            _take(dags, mapping(json.loads(entity)))
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"entry {at}: no entity: {error}") from error
    if not at:
        raise BrokenHistoryError("it is empty")
    runs = [_run(name, dag) for name, dag in dags.items() if dag.state == "SUCCEEDED"]
    others = {name: dag.state.lower() for name, dag in dags.items() if dag.state != "SUCCEEDED"}
    return runs, [f"{name} {state or 'has not ended'}" for name, state in others.items()]


def _entities(path: Path, files: Files) -> Iterator[tuple[int, bytes]]:
    parts: list[bytes] = []
    size = count = 0
    with files.open(path) as stream:
        for _, line in lines(stream):
            # the entity itself may contain line ends
            parts.append(line)
            size += len(line)
            if size > LINE_BYTES_MAX:
                raise BrokenHistoryError(f"entry {count + 1} is longer than {LINE_BYTES_MAX} bytes")
            if line.rstrip().endswith(_END):
                count += 1
                yield count, b"".join(parts).rstrip().removesuffix(_END)
                parts, size = [], 0
    if parts:
        raise BrokenHistoryError(f"cut off after entry {count}")


def _take(dags: dict[str, _Dag], entity: Mapping[str, Any]) -> None:
    """Process one object of a file; other kinds are ignored."""
    kind, match = text(entity.get("entitytype")), _ID.fullmatch(text(entity.get("entity")))
    facts = mapping(entity.get("otherinfo"))
    if match is None:
        return
    dag = dags.setdefault(f"dag_{match[1]}", _Dag())
    events = {text(mapping(event).get("eventtype")): mapping(event) for event in items(entity.get("events"))}
    if kind == "TEZ_DAG_ID" and "DAG_SUBMITTED" in events:
        filters = mapping(entity.get("primaryfilters"))
        dag.name, dag.queue = text(filters.get("dagName")), text(filters.get("queueName"))
        related = [mapping(other) for other in items(entity.get("relatedEntities"))]
        dag.user = next((text(other.get("entity")) for other in related if other.get("entitytype") == "user"), "")
        dag.submitted_ms = number(events["DAG_SUBMITTED"].get("ts"))
        dag.plan = mapping(facts.get("dagPlan"))
    elif kind == "TEZ_DAG_ID" and "DAG_FINISHED" in events:
        dag.state, dag.ended_ms = text(facts.get("status")), number(facts.get("endTime"))
    elif kind == "TEZ_VERTEX_ID":
        vertex = dag.vertices.setdefault(match[2] or "", _Vertex())
        vertex.name = text(facts.get("vertexName")) or vertex.name
        configured = mapping(events.get("VERTEX_CONFIGURE_DONE", {}).get("eventinfo"))
        # a vertex may be reconfigured: the last number counts
        vertex.tasks = number(configured.get("numTasks"), number(facts.get("numTasks"), vertex.tasks))
        if "VERTEX_FINISHED" in events:
            vertex.tasks = number(facts.get("numSucceededTasks"), vertex.tasks)
            groups = map(mapping, items(mapping(facts.get("counters")).get("counterGroups")))
            counters = [mapping(counter) for group in groups for counter in items(group.get("counters"))]
            inputs = [each for each in counters if text(each.get("counterName")) in _INPUT_COUNTERS]
            vertex.input_bytes = sum(number(each.get("counterValue")) for each in inputs)
    elif kind == "TEZ_TASK_ATTEMPT_ID" and text(facts.get("status")) == "SUCCEEDED":
        vertex = dag.vertices.setdefault(match[2] or "", _Vertex())
        took_ms = number(facts.get("endTime")) - number(facts.get("startTime"))
        vertex.took_ms.setdefault(match[3] or "", took_ms)


def _run(name: str, dag: _Dag) -> JobRun:
    parents: dict[str, set[str]] = {}
    single: dict[str, set[str]] = {}
    for edge in map(mapping, items(dag.plan.get("edges"))):
        child, parent = text(edge.get("outputVertexName")), text(edge.get("inputVertexName"))
        parents.setdefault(child, set()).add(parent)
        if text(edge.get("dataMovementType")) == "ONE_TO_ONE":
            single.setdefault(child, set()).add(parent)
    # vertices are numbered in an order with parents first
    stages = [
        StageRun(
            vertex.name or f"vertex {number(at)}",
            vertex.tasks or len(vertex.took_ms),
            DurationSketch(vertex.took_ms.values()),
            parents=tuple(sorted(parents.get(vertex.name, ()))),
            input_bytes=vertex.input_bytes,
            one_to_one=tuple(sorted(single.get(vertex.name, ()))),
        )
        for at, vertex in sorted(dag.vertices.items(), key=lambda found: number(found[0]))
    ]
    key = recurrence_key(dag.user, dag.queue or "default", "TEZ", dag.name)
    return JobRun(key, name, dag.submitted_ms, dag.ended_ms, tuple(stages))


FOLDER_PREFIX: Final = "eventlog_v2_"
PART_PREFIX: Final = "events_"
"""Prefixes of a rolled log's folder and of its files."""
CODECS: Final = ("zstd", "lz4", "lzf", "snappy")
"""Suffixes of compressed logs in Spark (``spark.eventLog.compression.codec``)."""

_PART_BYTES: Final = 1 << 10
"""Number of bytes read from a compressed file at a time."""

_PART = re.compile(rf"{PART_PREFIX}(?P<number>\d+)_.+?(?P<compact>\.compact)?(?:\.(?:{'|'.join(CODECS)}))?")


def _event_lines(path: Path, files: Files) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of an application's log in order, with their location.

    The last file may end anywhere: its application may still be running, or was killed.
    """
    parts = _parts(path) if path.is_dir() else [path]
    for part in parts:
        where = f"{part.name}, line" if path.is_dir() else "line"
        with files.open(part) as file:
            codec = codec_of(part.name.removesuffix(".inprogress").removesuffix(".compact"))
            if codec not in {"", "zstd"}:
                raise BrokenHistoryError(
                    f"compressed by {codec}; set spark.eventLog.compression.codec to zstd for new logs"
                )
            frames = _Frames(file) if codec else None
            for number, line in lines(io.BufferedReader(frames) if frames else file):
                yield f"{where} {number}", line
            if frames and frames.cut_off and part != parts[-1]:
                raise BrokenHistoryError(f"{part.name} is cut off")


def _parts(folder: Path) -> list[Path]:
    """Return the rolled files in order, from the last compacted one, which replaces the previous ones."""
    matches = ((part, _PART.fullmatch(part.name)) for part in folder.iterdir())
    parts = sorted((int(match["number"]), match["compact"] is not None, part) for part, match in matches if match)
    if not parts:
        raise BrokenHistoryError("no events_* files in the folder")
    start = max((number for number, compact, _ in parts if compact), default=0)
    chosen = [part for number, compact, part in parts if number > start or (number == start and compact)]
    numbers = [number for number, compact, _ in parts if number > start or (number == start and compact)]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or (start == 0 and numbers[0] != 1):
        raise BrokenHistoryError("some of the events_* files are missing")
    return chosen


def codec_of(name: str) -> str:
    """Return the codec that packed a log of this name; empty if none did."""
    codec = name.removesuffix(".inprogress").rpartition(".")[2]
    return codec if codec in CODECS else ""


class _Frames(io.RawIOBase):
    """The content of a stream of zstd frames. Spark flushes after important events, which may end a frame."""

    def __init__(self, stream: BinaryIO) -> None:
        try:
            self._unpacker = Unpacker()
        except ImportError:
            raise UserError(f"logs compressed by zstd need zstandard; {install_extra('history')}") from None
        self._stream = stream
        self._content = b""
        self._at = 0
        """Position in the content."""

    @property
    def cut_off(self) -> bool:
        """Return whether the stream ended within a frame."""
        return self._unpacker.in_frame

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._at == len(self._content):
            part = self._stream.read(_PART_BYTES)
            if not part:
                return 0
            try:
                self._content, self._at = self._unpacker.unpack(part), 0
            except UnpackError as error:
                raise BrokenHistoryError(f"{Path(self._stream.name).name}: {error}") from error
        count = min(len(buffer), len(self._content) - self._at)
        buffer[:count] = self._content[self._at : self._at + count]
        self._at += count
        return count


EXECUTORS = "executors"
"""Name of the stage of all executors, the only one that the live engine sees."""

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(b?)", re.IGNORECASE | re.ASCII)
_FRACTION = re.compile(r"\d{1,6}(?:\.\d{1,9})?", re.ASCII)
_MB = {"b": 1 / 1024 / 1024, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_OVERHEAD_LEAST_MB = 384
_OVERHEAD_SHARE = 0.1


@dataclass(slots=True, eq=False)
class _Stage(SparkStage):
    above: set[int] = field(default_factory=set)
    """IDs of the stages that provide its input."""
    done: set[int] = field(default_factory=set)
    """Tasks that have succeeded."""
    ran: bool = False


class Application:
    """State of one application after the events so far."""

    def __init__(self) -> None:
        self._facts: Mapping[str, Any] = {}
        self._properties: Mapping[str, Any] = {}
        self._stages: list[_Stage] = []
        self._by_id: dict[int, _Stage] = {}
        self._by_rdds: dict[frozenset[int], _Stage] = {}
        self._executors: dict[str, tuple[int, int]] = {}
        self._ended_ms: int | None = None
        self._exit_code = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Process one event; irrelevant kinds are ignored."""
        kind = text(event.get("Event"))
        if kind == "SparkListenerApplicationStart":
            self._facts = event
        elif kind == "SparkListenerEnvironmentUpdate":
            self._properties = mapping(event.get("Spark Properties"))
        elif kind == "SparkListenerJobStart":
            for info in items(event.get("Stage Infos")):
                self._list_stage(mapping(info))
        elif kind == "SparkListenerStageSubmitted":
            self._list_stage(mapping(event.get("Stage Info"))).ran = True
        elif kind == "SparkListenerTaskEnd":
            self._task_ended(event)
        elif kind == "SparkListenerExecutorAdded":
            self._executors[text(event.get("Executor ID"))] = (number(event.get("Timestamp")), -1)
        elif kind == "SparkListenerExecutorRemoved":
            executor = text(event.get("Executor ID"))
            if executor in self._executors:
                self._executors[executor] = (self._executors[executor][0], number(event.get("Timestamp")))
        elif kind == "SparkListenerApplicationEnd":
            self._ended_ms = number(event.get("Timestamp"))
            self._exit_code = number(event.get("ExitCode"))

    def run(self) -> JobRun:
        """Return the application as a run.

        Raises:
            BrokenHistoryError: no event names the application.
            UnfinishedError: it has not succeeded.
        """
        name = text(self._facts.get("App ID"))
        if not name:
            raise BrokenHistoryError("no event says which application it is of (SparkListenerApplicationStart)")
        if self._ended_ms is None:
            raise UnfinishedError(f"{name} has not ended")
        if self._exit_code:
            raise UnfinishedError(f"{name} ended with exit code {self._exit_code}")
        key = recurrence_key(
            text(self._facts.get("User")),
            text(self._properties.get("spark.yarn.queue")) or "default",
            "SPARK",
            text(self._facts.get("App Name")),
            tags_of(self._properties.get("spark.yarn.tags")),
        )
        ran = [stage for stage in self._stages if stage.ran]
        for stage in ran:
            parents = (self._by_id[parent].number for parent in sorted(stage.above) if parent in self._by_id)
            stage.parents = tuple(dict.fromkeys(parents))
        stages = (*self._executor_stage(self._ended_ms), *stage_runs(ran))
        return JobRun(key, name, number(self._facts.get("Timestamp")), self._ended_ms, stages)

    def _list_stage(self, info: Mapping[str, Any]) -> _Stage:
        """Return the stage of an entry in a list, a new one if none has its ID or its RDDs."""
        at = number(info.get("Stage ID"), -1)
        rdds = frozenset(number(mapping(rdd).get("RDD ID"), -1) for rdd in items(info.get("RDD Info")))
        stage = self._by_id.get(at) or (self._by_rdds.get(rdds) if rdds else None)
        if stage is None:
            stage = _Stage(len(self._stages), at, text(info.get("Stage Name")))
            self._stages.append(stage)
        stage.first_id = min(stage.first_id, at)
        self._by_id[at] = stage
        self._by_rdds.setdefault(rdds, stage)
        stage.tasks = max(stage.tasks, number(info.get("Number of Tasks")))
        stage.above.update(number(parent, -1) for parent in items(info.get("Parent IDs")))
        return stage

    def _task_ended(self, event: Mapping[str, Any]) -> None:
        stage = self._by_id.get(number(event.get("Stage ID"), -1))
        facts = mapping(event.get("Task Info"))
        at = number(facts.get("Index"), -1)
        if stage is None:
            return
        stage.speculative += facts.get("Speculative") is True
        reason = text(mapping(event.get("Task End Reason")).get("Reason"))
        # of two successful attempts (speculation, a lost executor) the first one counts
        if reason != "Success" or at in stage.done:
            stage.retried += reason != "TaskKilled"
            return
        stage.ran = True
        stage.done.add(at)
        stage.durations.add(number(facts.get("Finish Time")) - number(facts.get("Launch Time")))
        metrics = mapping(event.get("Task Metrics"))
        shuffle = mapping(metrics.get("Shuffle Read Metrics"))
        stage.input_bytes += (
            number(mapping(metrics.get("Input Metrics")).get("Bytes Read"))
            + number(shuffle.get("Remote Bytes Read"))
            + number(shuffle.get("Local Bytes Read"))
        )

    def _executor_stage(self, ended_ms: int) -> list[StageRun]:
        executors = [times for executor, times in self._executors.items() if executor != "driver"]
        if not executors:
            return []
        durations = DurationSketch((ended_ms if end_ms < 0 else end_ms) - start_ms for start_ms, end_ms in executors)
        return [StageRun(EXECUTORS, len(executors), durations, self._demand(), measured=Measured.CONTAINERS)]

    def _demand(self) -> dict[str, int]:
        """Return the resources requested from YARN: heap, overhead, off-heap and Python's, by Spark 4's defaults."""
        properties = self._properties
        heap_mb = _size_mb(properties.get("spark.executor.memory"), 1024)
        least_mb = _size_mb(properties.get("spark.executor.minMemoryOverhead"), _OVERHEAD_LEAST_MB)
        fraction = _FRACTION.fullmatch(text(properties.get("spark.executor.memoryOverheadFactor")).strip())
        share = float(fraction[0]) if fraction else _OVERHEAD_SHARE
        overhead_mb = max(least_mb, int(share * heap_mb))
        overhead_mb = _size_mb(properties.get("spark.executor.memoryOverhead"), overhead_mb)
        python_mb = _size_mb(properties.get("spark.executor.pyspark.memory"), 0)
        off_heap_mb = 0
        if text(properties.get("spark.memory.offHeap.enabled")).lower() == "true":
            off_heap_mb = _size_mb(properties.get("spark.memory.offHeap.size"), 0, unit="b")
        cores = number(properties.get("spark.executor.cores"), 1)
        return {"memory-mb": heap_mb + overhead_mb + python_mb + off_heap_mb, "vcores": cores}


def read_spark_log(path: Path, files: Files | None = None) -> JobRun:
    """Read an event log: a file, or a folder of rolled ones.

    Raises:
        BrokenHistoryError: it is invalid, or cut off.
        UnfinishedError: the application has not succeeded.
        OSError: it cannot be read.
    """
    application = Application()
    for where, line in _event_lines(path, files or Files()):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"{where}: no event: {error}") from error
        application.take(mapping(event))
    return application.run()


def _size_mb(value: object, otherwise: int, unit: str = "m") -> int:
    """Return a size in MB; ``unit`` is a bare number's, ``otherwise`` the result for any other value."""
    match = _SIZE.fullmatch(text(value).strip())
    return int(int(match[1][:15]) * _MB[match[2].lower() or match[3].lower() or unit]) if match else otherwise

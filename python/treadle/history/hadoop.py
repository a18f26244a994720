"""Readers of MapReduce's history files, and of Tez's SimpleHistoryLoggingService (``history.txt.<attempt>``).

A duration is that of the attempt, from its start in a container to its end. MapReduce's events are those of Hadoop's
``org.apache.hadoop.mapreduce.jobhistory`` (3.4.2), in binary form, one after another, or as one JSON line each, in
which Avro names the members of unions. The Avro schema is part of each untrusted file. So it must not contain: a
recursive type, which a reader would follow until its stack ends; values without a size, any number of which fits into
some bytes; and kinds of types that no history event has. A file of Tez holds JSON objects, each followed by a byte 1
and a line end, about the DAGs of one application master.
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
from treadle.history.profile import DurationSketch, JobRun, StageRun, recurrence_key

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

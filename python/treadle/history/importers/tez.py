"""Tez DAGs from the files of SimpleHistoryLoggingService (``history.txt.<attempt>``), Tez's default logger.

A file holds JSON objects, each followed by a byte 1 and a line's end, about the DAGs that one application master ran.
A task's time is that of the attempt that succeeded, from its start in a container to its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.history.importers.outcome import (
    LINE_BYTES_MAX,
    BrokenHistoryError,
    Files,
    items,
    lines,
    mapping,
    number,
    text,
)
from treadle.history.run import DurationSketch, JobRun, StageRun, recurrence_key

_END = b"\x01"
_ID = re.compile(r"(?:dag|vertex|task|attempt)_(\d+_\d+_\d+)(?:_(\d+))?(?:_(\d+))?(?:_(\d+))?")
_INPUT_COUNTERS = {"HDFS_BYTES_READ", "S3A_BYTES_READ", "SHUFFLE_BYTES"}


@dataclass(slots=True)
class _Vertex:
    name: str = ""
    tasks: int = 0
    took_ms: dict[str, int] = field(default_factory=dict)
    """By task."""
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


class TezHistory:
    """State from the entities of the history files read so far."""

    def __init__(self) -> None:
        self._dags: dict[str, _Dag] = {}

    def take(self, entity: Mapping[str, Any]) -> None:
        """Take one object of a file; kinds that say nothing of interest are passed."""
        kind, name = text(entity.get("entitytype")), text(entity.get("entity"))
        facts = mapping(entity.get("otherinfo"))
        match = _ID.fullmatch(name)
        if match is None:
            return
        dag = self._dags.setdefault(f"dag_{match[1]}", _Dag())
        events = {text(mapping(event).get("eventtype")): mapping(event) for event in items(entity.get("events"))}
        if kind == "TEZ_DAG_ID":
            _take_dag(dag, entity, events, facts)
        elif kind == "TEZ_VERTEX_ID":
            vertex = dag.vertices.setdefault(match[2] or "", _Vertex())
            vertex.name = text(facts.get("vertexName")) or vertex.name
            configured = mapping(events.get("VERTEX_CONFIGURE_DONE", {}).get("eventinfo"))
            # a vertex may be reconfigured: the last number counts
            vertex.tasks = number(configured.get("numTasks"), number(facts.get("numTasks"), vertex.tasks))
            if "VERTEX_FINISHED" in events:
                vertex.tasks = number(facts.get("numSucceededTasks"), vertex.tasks)
                vertex.input_bytes = _input(facts.get("counters"))
        elif kind == "TEZ_TASK_ATTEMPT_ID" and text(facts.get("status")) == "SUCCEEDED":
            vertex = dag.vertices.setdefault(match[2] or "", _Vertex())
            took_ms = number(facts.get("endTime")) - number(facts.get("startTime"))
            vertex.took_ms.setdefault(match[3] or "", took_ms)

    def runs(self) -> tuple[list[JobRun], list[str]]:
        """Return the DAGs that succeeded, and of the others why they are left out."""
        runs, left_out = [], []
        for name, dag in self._dags.items():
            if dag.state == "SUCCEEDED":
                runs.append(_run(name, dag))
            else:
                left_out.append(f"{name} {dag.state.lower() or 'has not ended'}")
        return runs, left_out


def read_tez_history(path: Path, files: Files | None = None) -> tuple[list[JobRun], list[str]]:
    """Read a history file; see `TezHistory.runs`.

    Raises:
        BrokenHistoryError: it is none, or cut off.
        OSError: it cannot be read.
    """
    history = TezHistory()
    found = False
    for at, entity in _entities(path, files or Files()):
        try:
            history.take(mapping(json.loads(entity)))
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"entry {at}: no entity: {error}") from error
        found = True
    if not found:
        raise BrokenHistoryError("it is empty")
    return history.runs()


def _entities(path: Path, files: Files) -> Iterator[tuple[int, bytes]]:
    parts: list[bytes] = []
    size = count = 0
    with files.open(path) as stream:
        for _, line in lines(stream):
            # what the entity holds may have line ends of its own
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


def _take_dag(
    dag: _Dag, entity: Mapping[str, Any], events: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]
) -> None:
    if "DAG_SUBMITTED" in events:
        filters = mapping(entity.get("primaryfilters"))
        dag.name, dag.queue = text(filters.get("dagName")), text(filters.get("queueName"))
        related = [mapping(other) for other in items(entity.get("relatedEntities"))]
        dag.user = next((text(other.get("entity")) for other in related if other.get("entitytype") == "user"), "")
        dag.submitted_ms = number(events["DAG_SUBMITTED"].get("ts"))
        dag.plan = mapping(facts.get("dagPlan"))
    elif "DAG_FINISHED" in events:
        dag.state = text(facts.get("status"))
        dag.ended_ms = number(facts.get("endTime"))


def _run(name: str, dag: _Dag) -> JobRun:
    parents: dict[str, set[str]] = {}
    single: dict[str, set[str]] = {}
    for edge in map(mapping, items(dag.plan.get("edges"))):
        child, parent = text(edge.get("outputVertexName")), text(edge.get("inputVertexName"))
        parents.setdefault(child, set()).add(parent)
        if text(edge.get("dataMovementType")) == "ONE_TO_ONE":
            single.setdefault(child, set()).add(parent)
    # vertices are numbered in an order in which parents come first
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


def _input(counters: object) -> int:
    total = 0
    for group in map(mapping, items(mapping(counters).get("counterGroups"))):
        for counter in map(mapping, items(group.get("counters"))):
            if text(counter.get("counterName")) in _INPUT_COUNTERS:
                total += number(counter.get("counterValue"))
    return total

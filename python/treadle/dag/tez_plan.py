"""Tez's own plan of a DAG: the file ``tez-dag.pb`` among the resources of an application master (Tez 0.10.5).

The file is a message of Tez's (``DAGApiRecords.proto``, ``DAGPlan``) that also holds the job's credentials. So it is
not decoded as a whole: the fields that say what the DAG is are taken out, and whatever else is there is stepped over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.dag.dag import DagError

FILE_BYTES_MAX: Final = 256 << 20

# Numbers of fields in DAGApiRecords.proto.
_NAME, _VERTEX, _EDGE = 1, 2, 3
_VERTEX_NAME, _VERTEX_TASK_CONFIG = 1, 4
_TASKS, _MEMORY_MB, _CORES = 1, 2, 3
_EDGE_FROM, _EDGE_TO, _EDGE_MOVEMENT = 2, 3, 4
_ONE_TO_ONE = 0

# Protocol Buffers' wire types.
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Vertex:
    """A vertex as it was submitted."""

    name: str
    tasks: int | None
    """None: known only once its input has been looked at."""
    memory_mb: int
    vcores: int


@dataclass(frozen=True, slots=True)
class Edge:
    """Data that goes from one vertex to another."""

    source: str
    target: str
    one_to_one: bool
    """Task i of the one feeds task i of the other alone."""


@dataclass(frozen=True, slots=True)
class TezPlan:
    """A DAG as it was submitted: without durations, and not all of its vertices need know how many tasks they have."""

    name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]


def read_tez_plan(path: Path) -> TezPlan:
    """Read a ``tez-dag.pb``.

    Raises:
        DagError: it cannot be read, or is none.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise DagError(f"{path}: larger than {FILE_BYTES_MAX} bytes; give a tez-dag.pb")
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise DagError(f"{path}: {error.strerror or error}; give the path of a readable file") from None
    try:
        return _plan(content)
    except ValueError as error:
        raise DagError(f"{path}: no DAGPlan of Tez's ({error}); give a tez-dag.pb") from None


def _plan(content: memoryview) -> TezPlan:
    name, vertices, edges = "", [], []
    for field, value in _fields(content):
        if field == _NAME:
            name = _text(value)
        elif field == _VERTEX:
            vertices.append(_vertex(_message(value)))
        elif field == _EDGE:
            edges.append(_edge(_message(value)))
    if not vertices:
        raise ValueError("it has no vertices")
    return TezPlan(name, tuple(vertices), tuple(edges))


def _vertex(content: memoryview) -> Vertex:
    name, tasks, memory_mb, vcores = "", -1, 0, 0
    for field, value in _fields(content):
        if field == _VERTEX_NAME:
            name = _text(value)
        elif field == _VERTEX_TASK_CONFIG:
            for inner, amount in _fields(_message(value)):
                if inner == _TASKS:
                    tasks = _number(amount)
                elif inner == _MEMORY_MB:
                    memory_mb = _number(amount)
                elif inner == _CORES:
                    vcores = _number(amount)
    return Vertex(name, tasks if tasks >= 0 else None, max(0, memory_mb), max(0, vcores))


def _edge(content: memoryview) -> Edge:
    source, target, movement = "", "", -1
    for field, value in _fields(content):
        if field == _EDGE_FROM:
            source = _text(value)
        elif field == _EDGE_TO:
            target = _text(value)
        elif field == _EDGE_MOVEMENT:
            movement = _number(value)
    return Edge(source, target, movement == _ONE_TO_ONE)


def _fields(content: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield a message's fields: numbers as numbers, all that has a length as what it is in the file."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(content, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(content, at)
        elif kind in (_FIXED_64, _FIXED_32):
            length = 8 if kind == _FIXED_64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        if at + length > len(content):
            raise ValueError("cut off")
        if kind == _BYTES:
            yield key >> 3, content[at : at + length]
        at += length


def _varint(content: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise ValueError("cut off")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _number(value: int | memoryview) -> int:
    """Return a 32-bit number; a negative one is written as if it had 64 bits."""
    if not isinstance(value, int):
        raise ValueError("a text where a number should be")
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number where a message should be")
    return value


def _text(value: int | memoryview) -> str:
    return str(_message(value), "utf-8")  # UnicodeDecodeError is a ValueError

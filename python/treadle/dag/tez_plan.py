"""Tez's own plan of a DAG: the file ``tez-dag.pb`` among the resources of an application master (Tez 0.10.5).

The file is a message of Tez's (``DAGApiRecords.proto``, ``DAGPlan``) that also holds the job's credentials. So only the
fields that say what the DAG is are declared here; whatever else is in a file is dropped as it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from treadle.dag.dag import DagError
from treadle.errors import UserError, install_extra

FILE_BYTES_MAX: Final = 256 << 20

SCHEMA: Final = """
name: "treadle/tez_plan.proto" package: "treadle.tez" syntax: "proto2"
message_type {
  name: "DAGPlan"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "vertex" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".treadle.tez.VertexPlan" }
  field { name: "edge" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".treadle.tez.EdgePlan" }
}
message_type {
  name: "VertexPlan"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "taskConfig" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".treadle.tez.TaskConfig" }
}
message_type {
  name: "TaskConfig"
  field { name: "numTasks" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "-1" }
  field { name: "memoryMb" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "virtualCores" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
}
message_type {
  name: "EdgePlan"
  field { name: "inputVertexName" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "outputVertexName" number: 3 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "dataMovementType" number: 4 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "-1" }
}
"""
"""What is read of ``DAGApiRecords.proto``: its names and numbers. Names are bytes: invalid UTF-8 is reported."""

ONE_TO_ONE: Final = 0
"""Of ``PlanEdgeDataMovementType``."""


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
        UserError: the library that reads it is missing.
    """
    dag_plan = plan_class()
    from google.protobuf.message import DecodeError

    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise DagError(f"{path}: larger than {FILE_BYTES_MAX} bytes; give a tez-dag.pb")
        content = path.read_bytes()
    except OSError as error:
        raise DagError(f"{path}: {error.strerror or error}; give the path of a readable file") from None
    try:
        message = dag_plan.FromString(content)
        message.DiscardUnknownFields()
        return _plan(message)
    except (DecodeError, ValueError) as error:
        raise DagError(f"{path}: no DAGPlan of Tez's ({error}); give a tez-dag.pb") from None


@cache
def plan_class() -> Any:
    """Return the class of ``DAGPlan``, with the fields of `SCHEMA`."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format  # only here: an extra
    except ImportError:
        raise UserError(f"a tez-dag.pb needs protobuf; {install_extra('history')}") from None
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(SCHEMA, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("treadle.tez.DAGPlan"))


def _plan(message: Any) -> TezPlan:
    if not message.vertex:
        raise ValueError("it has no vertices")
    vertices = tuple(_vertex(one) for one in message.vertex)
    edges = tuple(
        Edge(str(one.inputVertexName, "utf-8"), str(one.outputVertexName, "utf-8"), one.dataMovementType == ONE_TO_ONE)
        for one in message.edge
    )
    return TezPlan(str(message.name, "utf-8"), vertices, edges)


def _vertex(message: Any) -> Vertex:
    config = message.taskConfig
    return Vertex(
        str(message.name, "utf-8"),
        config.numTasks if config.numTasks >= 0 else None,
        max(0, config.memoryMb),
        max(0, config.virtualCores),
    )

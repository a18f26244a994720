"""The `dag` format: a DAG and its machines, one JSON object a line (docs/plan.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from treadle.dag.dag import MACHINES_MAX, DagError, Instance, Stage, check_fits, ordered
from treadle.dag.fields import Fields, json_lines

TASKS_MAX = 10_000_000
STAGE_FIELDS = ("id", "tasks", "duration_ms", "demand", "parents", "one_to_one", "name")


def read_instances(path: Path, machines: int | None = None) -> Iterator[Instance]:
    """Yield the DAGs of a file; ``machines`` replaces what the lines say.

    Raises:
        DagError: names the file, the line, the field and the remedy.
    """
    for line in json_lines(path):
        yield _instance(line, machines)


def _instance(line: Fields, machines: int | None) -> Instance:
    line.known("name", "machines", "capacity", "stages")
    name = line.text("name", "give the DAG a name")
    count = line.integer("machines", 1, MACHINES_MAX) if machines is None else machines
    capacity = line.amounts("capacity")
    stages = tuple(_stage(fields) for fields in line.objects("stages"))
    if not stages:
        line.fail("stages", "empty; give at least one stage")
    try:
        dag = ordered(name, stages)
        check_fits(dag, capacity, count)
        return Instance(dag, capacity, count)
    except DagError as error:
        raise DagError(f"{line.where}: {error}") from None


def _stage(fields: Fields) -> Stage:
    fields.known(*STAGE_FIELDS)
    return Stage(
        id=fields.integer("id", -(2**40)),
        tasks=fields.integer("tasks", 0, TASKS_MAX),
        duration_ms=fields.integer("duration_ms"),
        demand=fields.amounts("demand"),
        parents=_distinct(fields, "parents") if "parents" in fields.values else (),
        one_to_one=frozenset(_distinct(fields, "one_to_one")) if "one_to_one" in fields.values else frozenset(),
        name=fields.text("name", "give the stage a name, or none") if "name" in fields.values else "",
    )


def _distinct(fields: Fields, field: str) -> tuple[int, ...]:
    """Return the ids of a list; one that is named twice counts once."""
    return tuple(dict.fromkeys(fields.integers(field, -(2**40))))


def write_instances(instances: Iterable[Instance], stream: TextIO) -> None:
    """Write DAGs so that `read_instances` returns the same; single task durations are not kept."""
    for instance in instances:
        stages = [_stage_json(stage) for stage in instance.dag.stages]
        line = {
            "name": instance.dag.name,
            "machines": instance.machines,
            "capacity": dict(instance.capacity),
            "stages": stages,
        }
        stream.write(json.dumps(line) + "\n")


def _stage_json(stage: Stage) -> dict[str, object]:
    values: dict[str, object] = {
        "id": stage.id,
        "tasks": stage.tasks,
        "duration_ms": stage.duration_ms,
        "demand": dict(stage.demand),
        "parents": list(stage.parents),
    }
    if stage.one_to_one:
        values["one_to_one"] = sorted(stage.one_to_one)
    if stage.name:
        values["name"] = stage.name
    return values

"""The `dag` format: a DAG and its machines, one JSON object a line (docs/plan.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, TextIO, TypeAlias

from pydantic import Field

from treadle.dag.dag import MACHINES_MAX, DagError, Instance, Stage, check_fits, ordered
from treadle.dag.reading import WHOLE_MAX, Amounts, Line, Text, Whole, checked, json_lines

TASKS_MAX: Final = 10_000_000
Id: TypeAlias = Annotated[int, Whole(-WHOLE_MAX)]


class StageLine(Line):
    """A stage, as an object of a line."""

    id: Id
    tasks: Annotated[int, Whole(0, TASKS_MAX)]
    duration_ms: Annotated[int, Whole()]
    demand: Amounts
    parents: tuple[Id, ...] = ()
    one_to_one: tuple[Id, ...] = ()
    name: Annotated[str, Text("give the stage a name, or none")] = ""

    def stage(self) -> Stage:
        """Return the stage; an id that a list has twice counts once."""
        parents, one_to_one = tuple(dict.fromkeys(self.parents)), frozenset(self.one_to_one)
        return Stage(self.id, self.tasks, self.duration_ms, self.demand, parents, one_to_one, name=self.name)


class DagLine(Line):
    """A DAG and its machines, as a line."""

    name: Annotated[str, Text("give the DAG a name")]
    machines: Annotated[int, Whole(1, MACHINES_MAX)]
    capacity: Amounts
    stages: tuple[StageLine, ...] = Field(min_length=1)


def read_instances(path: Path, machines: int | None = None) -> Iterator[Instance]:
    """Yield the DAGs of a file; ``machines`` replaces what the lines say.

    Raises:
        DagError: names the file, the line, the field and the remedy.
    """
    for where, values in json_lines(path):
        line = checked(DagLine, where, values if machines is None else values | {"machines": machines})
        try:
            dag = ordered(line.name, tuple(stage.stage() for stage in line.stages))
            check_fits(dag, line.capacity, line.machines)
            yield Instance(dag, line.capacity, line.machines)
        except DagError as error:
            raise DagError(f"{where}: {error}") from None


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

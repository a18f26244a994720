"""Instances of the resource-constrained project scheduling problem (PSPLIB), one JSON object a line.

Every activity is a stage of one task; one pool of renewable resources is one machine. Durations are whole periods.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from treadle.dag.dag import DagError, Instance, Stage, TimeUnit, ordered
from treadle.dag.reading import Line, Text, Whole, checked, json_lines

Vector: TypeAlias = tuple[Annotated[int, Whole()], ...]


class ProjectLine(Line):
    """A project, as a line; the last four, what the source knows of it, are optional."""

    id: Annotated[str, Text("give the instance an id")]
    name: Any = None
    cap: Vector
    dur: Vector = Field(min_length=1)
    dem: tuple[Vector, ...]
    succ: tuple[Vector, ...]
    cpm: Any = None
    res_lb: Any = None
    lb: Any = None
    ub: Annotated[int, Whole()] | None = None


def read_instances(path: Path) -> Iterator[Instance]:
    """Yield the instances of a file.

    Raises:
        DagError: names the file, the line, the field and the remedy.
    """
    for where, values in json_lines(path):
        line = checked(ProjectLine, where, values)
        try:
            yield _instance(line)
        except DagError as error:
            raise DagError(f"{where}: {error}") from None


def _instance(line: ProjectLine) -> Instance:
    count = len(line.dur)
    for field, vectors in {"dem": line.dem, "succ": line.succ}.items():
        if len(vectors) != count:
            raise DagError(f"{field}: give {count} lists of whole numbers, one for each of dur")
    parents: list[list[int]] = [[] for _ in line.dur]
    for activity, after in enumerate(line.succ):
        for successor in after:
            if successor >= count:
                raise DagError(f"succ[{activity}]: {successor} is no activity; give one below {count}")
            parents[successor].append(activity)
    for activity, demand in enumerate(line.dem):
        if len(demand) != len(line.cap):
            raise DagError(f"dem[{activity}]: {len(demand)} amounts for {len(line.cap)} resources; give one each")
    names = [f"r{index + 1}" for index in range(len(line.cap))]
    stages = tuple(
        Stage(activity, 1, duration, dict(zip(names, map(float, demand), strict=True)), tuple(dict.fromkeys(before)))
        for activity, (duration, demand, before) in enumerate(zip(line.dur, line.dem, parents, strict=True))
    )
    pool = dict(zip(names, map(float, line.cap), strict=True))
    return Instance(ordered(line.id, stages), pool, 1, TimeUnit.PERIOD, line.ub)

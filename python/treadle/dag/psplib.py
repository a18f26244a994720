"""Instances of the resource-constrained project scheduling problem (PSPLIB), one JSON object a line.

Every activity is a stage of one task; one pool of renewable resources is one machine. Durations are whole periods.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from treadle.dag.dag import DagError, Instance, Stage, TimeUnit, ordered
from treadle.dag.fields import Fields, json_lines

FIELDS = ("id", "name", "cap", "dur", "dem", "succ", "cpm", "res_lb", "lb", "ub")


def read_instances(path: Path) -> Iterator[Instance]:
    """Yield the instances of a file.

    Raises:
        DagError: names the file, the line, the field and the remedy.
    """
    for line in json_lines(path):
        yield _instance(line)


def _instance(line: Fields) -> Instance:
    line.known(*FIELDS)
    capacity = line.integers("cap")
    durations = line.integers("dur")
    demands = _vectors(line, "dem", len(durations))
    successors = _vectors(line, "succ", len(durations))
    parents: list[list[int]] = [[] for _ in durations]
    for activity, after in enumerate(successors):
        for successor in after:
            if successor >= len(durations):
                line.fail(f"succ[{activity}]", f"{successor} is no activity; give one below {len(durations)}")
            parents[successor].append(activity)
    for activity, demand in enumerate(demands):
        if len(demand) != len(capacity):
            line.fail(f"dem[{activity}]", f"{len(demand)} amounts for {len(capacity)} resources; give one each")
    names = [f"r{index + 1}" for index in range(len(capacity))]
    stages = tuple(
        Stage(activity, 1, duration, dict(zip(names, map(float, demand), strict=True)), tuple(dict.fromkeys(before)))
        for activity, (duration, demand, before) in enumerate(zip(durations, demands, parents, strict=True))
    )
    if not stages:
        line.fail("dur", "empty; give at least one activity")
    name = line.text("id", "give the instance an id")
    best = line.integer("ub") if line.values.get("ub") is not None else None
    try:
        dag = ordered(name, stages)
        pool = dict(zip(names, map(float, capacity), strict=True))
        return Instance(dag, pool, 1, TimeUnit.PERIOD, best)
    except DagError as error:
        raise DagError(f"{line.where}: {error}") from None


def _vectors(line: Fields, field: str, count: int) -> list[tuple[int, ...]]:
    remedy = f"give {count} lists of whole numbers, one for each of dur"
    values = line.of(field, remedy)
    if not isinstance(values, list) or len(values) != count:
        line.fail(field, remedy)
    named = Fields(line.where, {f"{field}[{index}]": value for index, value in enumerate(values)})
    return [named.integers(name) for name in named.values]

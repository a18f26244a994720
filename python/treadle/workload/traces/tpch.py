"""TPC-H query DAGs measured on Spark: which stage needs which, and how many tasks of what mean duration each has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from treadle.dag.dag import DagError, Stage, ordered
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.traces.reading import Progress, WorkloadError, needed_file, read_table, wrong

EDGES_HEADER: Final = "query,stage,child"
PROFILES_HEADER: Final = "query,size_gb,max_cores,stage,tasks,mean_runtime_ms"

Profile = tuple[int, int, int]
"""A query, the size of its data in GB, the most cores that it had."""


def read_tpch(
    path: Path,
    progress: Progress | None = None,
    slot: Mapping[str, float] = CONTAINER,
    size_gb: int | None = None,
    max_cores: int | None = None,
) -> Workload:
    """Read the profiles as one job each, all arriving at time 0, by query, size and cores.

    For jobs that arrive over time give their DAGs to `treadle.workload.generate.one_of`. All tasks of a stage last its
    measured mean.

    Args:
        path: the table of profiles or its folder; the table of edges must lie beside it.
        progress: called with the part that is done.
        slot: what a task asks for; the tables do not say it.
        size_gb: only profiles of this size.
        max_cores: only profiles of this many cores.

    Raises:
        WorkloadError: a table is not there, a row is wrong, the stages do not fit the edges, or nothing is left.
    """
    folder = path if path.is_dir() else path.parent
    profiles_file = needed_file(folder, "profiles.csv", "it has the stages") if path.is_dir() else path
    edges_file = needed_file(folder, "edges.csv", "it has which stage needs which")
    parents = _read_edges(edges_file)
    stages: dict[Profile, dict[int, Stage]] = {}
    for place, (query, size, cores, number, tasks, mean) in read_table(profiles_file, PROFILES_HEADER, progress):
        profile = (place.count("query", query), place.count("size_gb", size), place.count("max_cores", cores))
        if (size_gb or profile[1]) != profile[1] or (max_cores or profile[2]) != profile[2]:
            continue
        stage = place.count("stage", number)
        found = stages.setdefault(profile, {})
        if stage in found:
            raise place.wrong("stage", f"query {query} has a second stage {number} at {size} GB and {cores} cores")
        duration_ms = max(1, round(place.amount("mean_runtime_ms", mean)))
        before = tuple(sorted(parents.get(profile[0], {}).get(stage, ())))
        width = place.count("tasks", tasks, least=1)
        found[stage] = Stage(stage, width, duration_ms, slot, before, name=f"stage{stage}")
    if not stages:
        raise wrong(profiles_file, "", "there is no profile of that size and this many cores")
    return arranged(_job(profile, stages[profile], profiles_file) for profile in sorted(stages))


def _job(profile: Profile, stages: Mapping[int, Stage], path: Path) -> Job:
    query, size, cores = profile
    name = f"q{query}-{size}gb-{cores}cores"
    try:
        dag = ordered(name, tuple(stages[number] for number in sorted(stages)))
    except DagError as error:
        raise WorkloadError(f"{path}: {error}; the tables do not belong together") from None
    tags = (f"size_gb:{size}", f"max_cores:{cores}")
    return Job(name, 0, dag, Framework.SPARK, f"q{query}", tags=tags)


def _read_edges(path: Path) -> dict[int, dict[int, set[int]]]:
    """Return for each query and stage the stages that must end before it."""
    parents: dict[int, dict[int, set[int]]] = {}
    for place, (query, stage, child) in read_table(path, EDGES_HEADER):
        before = parents.setdefault(place.count("query", query), {})
        before.setdefault(place.count("child", child), set()).add(place.count("stage", stage))
    return parents

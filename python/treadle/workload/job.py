"""A job as the simulator and the reproductions see it: when it comes, whose it is, and its DAG."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from treadle.dag.dag import Dag


class Framework(StrEnum):
    """Which application master's behaviour a job shows to the ResourceManager (docs/simulator.md)."""

    MAPREDUCE = "mapreduce"
    TEZ = "tez"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One submission. What is empty is not known."""

    id: str
    arrival_ms: int
    dag: Dag
    framework: Framework = Framework.TEZ
    name: str = ""
    user: str = ""
    queue: str = ""
    tags: tuple[str, ...] = ()
    hosts: dict[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """For a stage id: for each task the nodes that hold its input; stages missing here have no preference."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs in order of arrival, and the names of the resources that their stages may ask for."""

    resources: tuple[str, ...]
    jobs: tuple[Job, ...]

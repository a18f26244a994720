"""A job as the simulator and the reproductions see it: when it comes, whose it is, and its DAG."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from treadle.dag.dag import Dag
from treadle.workload.traces.errors import WorkloadError


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
    notes: tuple[str, ...] = ()
    """What a reader left out of the file or had to assume, a sentence each."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        known = set(self.resources)
        latest = 0
        for job in self.jobs:
            if job.arrival_ms < 0:
                raise WorkloadError(f"job {job.id}: arrival_ms is {job.arrival_ms}; it must not be negative")
            if job.arrival_ms < latest:
                raise WorkloadError(f"job {job.id} comes before the job in front of it; see `arranged`")
            if job.id in seen:
                raise WorkloadError(f"two jobs have the id {job.id}")
            for stage in job.dag.stages:
                if not known.issuperset(stage.demand):
                    extra = ", ".join(sorted(set(stage.demand) - known))
                    raise WorkloadError(f"job {job.id}: stage {stage.id} asks for {extra}, which `resources` lacks")
            seen.add(job.id)
            latest = job.arrival_ms

    @property
    def tasks(self) -> int:
        """How many tasks all jobs have together."""
        return sum(job.dag.tasks for job in self.jobs)

    @property
    def span_ms(self) -> int:
        """From the first arrival to the last."""
        return self.jobs[-1].arrival_ms - self.jobs[0].arrival_ms if self.jobs else 0


def arranged(jobs: Iterable[Job], notes: Iterable[str] = ()) -> Workload:
    """Return jobs given in any order as a workload: by arrival, else as given; resources by name."""
    ordered = tuple(sorted(jobs, key=lambda job: job.arrival_ms))
    names = {name for job in ordered for stage in job.dag.stages for name in stage.demand}
    return Workload(tuple(sorted(names)), ordered, tuple(notes))

"""Which DAGs are run on a mini cluster: those of `treadle dags generate`, small enough for a machine of two cores."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from treadle.dag.dag import Dag
from treadle.dag.generate import Shape, generate
from treadle.history.run import JobRun, RecurrenceKey, StageRun
from treadle.history.sketch import DurationSketch
from treadle.lab.harness.sleeping_dags import MEMORY, VCORES, vertex_name

__all__ = ["NETWORK", "NODE", "UNIT_MB", "DagSettings", "draw", "runs_before"]

NETWORK: Final = "network"
"""A resource type by resource-types.xml; nothing stands behind it."""
UNITS: Final = 20
"""Of each resource on a machine; what tasks ask for is rounded up to whole ones."""
UNIT_MB: Final = 64
NODE: Final = {MEMORY: UNITS * UNIT_MB, VCORES: UNITS, NETWORK: UNITS}
"""What a machine has for tasks."""
EARLIER_RUNS: Final = 2
"""How many runs of a recurring job are needed before plans go by them."""


@dataclass(frozen=True, slots=True)
class DagSettings:
    """How large the DAGs of a draw are, how troublesome, and on how many machines they run."""

    jobs: int = 5
    """One is submitted every two seconds."""
    nodes: int = 2
    depth: tuple[int, int] = (2, 3)
    stages: tuple[int, int] = (4, 7)
    tasks: tuple[int, int] = (6, 24)
    """Of a DAG, the logarithm drawn evenly: inputs differ in size."""
    duration_ms: tuple[int, int] = (1500, 3000)
    """Of a task that is not long; long ones take ten to twenty times as much."""
    long_share: float = Shape().long_share
    fragmenting_share: float = 0.8

    def shape(self, tasks: int) -> Shape:
        """Return the generator's parameters for a DAG of this many tasks."""
        return Shape(
            machines=self.nodes,
            depth=self.depth,
            stages=self.stages,
            tasks=(tasks, tasks),
            long_share=self.long_share,
            fragmenting_share=self.fragmenting_share,
            duration_ms=self.duration_ms,
        )


def draw(seed: int, settings: DagSettings) -> list[Dag]:
    """Return the DAGs of a seed, what tasks ask for in YARN's units."""
    random = np.random.default_rng(seed)
    drawn = []
    for number in range(settings.jobs):
        tasks = round(float(np.exp(random.uniform(*np.log(settings.tasks)))))
        name = f"dag {chr(ord('a') + number)}"  # trailing numbers would make them runs of one recurring job
        drawn.append(_in_units(name, generate(int(random.integers(2**31)), settings.shape(tasks)).dag))
    return drawn


def _in_units(name: str, dag: Dag) -> Dag:
    stages = []
    for stage in dag.stages:
        units = {resource: math.ceil(round(share * UNITS, 6)) for resource, share in stage.demand.items()}
        demand = {
            MEMORY: float(units["memory"] * UNIT_MB),
            VCORES: float(units["cpu"]),
            NETWORK: float(units["network"]),
        }
        stages.append(replace(stage, demand=demand))
    return Dag(name, tuple(stages))


def runs_before(dag: Dag, key: RecurrenceKey) -> list[JobRun]:
    """Return earlier runs of a DAG as the store of profiles holds them: what tasks took, and who waits for whom."""
    names = {stage.id: vertex_name(stage) for stage in dag.stages}
    stages = tuple(
        StageRun(
            names[stage.id],
            stage.tasks,
            DurationSketch([stage.duration_ms] * stage.tasks),
            {name: round(amount) for name, amount in stage.demand.items()},
            tuple(names[parent] for parent in stage.parents),
        )
        for stage in dag.stages
    )
    span_ms = sum(stage.duration_ms for stage in dag.stages)
    ends_ms = [(number + 1) * span_ms for number in range(EARLIER_RUNS)]
    return [
        JobRun(key, f"dag_{number}_0001_1", end_ms - span_ms, end_ms, stages) for number, end_ms in enumerate(ends_ms)
    ]

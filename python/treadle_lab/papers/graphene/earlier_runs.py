"""Which DAGs are run on a mini cluster: those of `treadle dags generate`, small enough for a machine of two cores."""

from __future__ import annotations

from typing import Final

from treadle.dag.dag import Dag
from treadle.history.run import JobRun, RecurrenceKey, StageRun
from treadle.history.sketch import DurationSketch
from treadle_lab.harness.sleeping_dags import vertex_name

NETWORK: Final = "network"
"""A resource type by resource-types.xml; nothing stands behind it."""
EARLIER_RUNS: Final = 2
"""How many runs of a recurring job are needed before plans go by them."""


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

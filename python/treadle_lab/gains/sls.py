"""Fair-finish and YARN's `fair` on a real ResourceManager, whose 150 simulated nodes play windows of Google's day.

Durations and gaps are compressed by `TIMES`, and with them the estimate's prior. Nodes are as large as the load asks
for. The simulator plays the same jobs under the same heartbeats. Names of jobs are unique in both: none recurs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Final

import numpy as np

from treadle.dag import Dag
from treadle.errors import UserError
from treadle.simulate import Scenario
from treadle.simulate.batch import RunSpec, completion_s, run_line
from treadle.simulator.results import FailedRun
from treadle.workload.job import Job, arranged
from treadle_lab.gains.cell import BASELINE, chosen, file_of
from treadle_lab.gains.workloads import AM_PERCENT, HOURS, MACHINE, MASTER, google_window, machines_for
from treadle_lab.rows import RATIO, Layout, Results, Row
from treadle_lab.sls.play import Cluster, Draw, Player, Scheduling, Script, ScriptedJob, facts_of, pace_table, stages_of

NODES: Final = 150
TIMES: Final = 0.01
"""Durations on the testbed over those of the trace."""
HEARTBEAT_MS: Final = 250
OURS: Final = "fair-finish"
SHORT: Final = "fair-finish-sls"
"""The same with a compressed prior."""


@dataclass(frozen=True, slots=True)
class Point:
    """A load and an AM limit."""

    load: float
    am_percent: int
    every: int
    """Only each draw of so many is played."""

    @property
    def x(self) -> str:
        """Return its name in tables."""
        return f"load {self.load}, AM limit {self.am_percent} %"


POINTS: Final = (Point(1.2, 50, 1), Point(0.9, 50, 2), Point(1.2, AM_PERCENT, 5))


@dataclass(frozen=True, slots=True)
class PointDraw(Draw):
    """A draw at a point, with mean completion times by the simulator, in s."""

    point: Point
    simulated_s: dict[str, float]


def compressed(seed: int) -> tuple[Job, ...]:
    """Return the jobs of a window as the testbed plays them."""
    found = []
    for job in google_window(seed, HOURS):
        stages = []
        for stage in job.dag.stages:
            times = np.maximum(1, np.rint(TIMES * stage.durations())).astype(np.int64)
            stages.append(replace(stage, duration_ms=max(1, round(float(times.mean()))), durations_ms=times))
        dag = Dag(job.dag.name, tuple(stages))
        found.append(replace(job, name=job.id, arrival_ms=round(TIMES * job.arrival_ms), dag=dag))
    return tuple(found)


def node_for(jobs: Sequence[Job], load: float) -> dict[str, int]:
    """Return the resources of a node."""
    share = machines_for(jobs, load) / NODES
    return {name: round(share * amount) for name, amount in MACHINE.items()}


def run_draw(point: Point, turn: int, seed: int, player: Player) -> PointDraw:
    """Play a draw under both schedulers, beginning with another one in each turn, and simulate it.

    Raises:
        BenchError: a run gave no result.
    """
    jobs = compressed(seed)
    node = node_for(jobs, point.load)
    cluster = Cluster(
        NODES, node["memory-mb"], node["vcores"], HEARTBEAT_MS, least_mb=1, masters_share=point.am_percent / 100
    )
    script = Script(
        tuple(
            ScriptedJob(job.id, job.arrival_ms, stages_of(job.dag), "TEZ", job.user, master_mb=MASTER["memory-mb"])
            for job in jobs
        )
    )
    schemes = Scheduling(OURS, file_of(SHORT).read_text("utf-8")), Scheduling(BASELINE, ordering="fair")
    runs = player.draw(schemes, lambda _: script, cluster, seed, turn)
    return PointDraw(seed, runs, point, simulated_s(jobs, node, point, seed))


def simulated_s(jobs: tuple[Job, ...], node: dict[str, int], point: Point, seed: int) -> dict[str, float]:
    """Return the mean completion time of a draw under each scheduler by the simulator, in s.

    Raises:
        UserError: a part of the policy failed.
    """
    scenario = Scenario.of(
        {
            "cluster": {"nodes": [{"count": NODES, "resources": node}], "heartbeat_ms": HEARTBEAT_MS},
            "queues": {"default": {"capacity": 100, "maximum_am_resource_percent": point.am_percent}},
            "frameworks": {"master": MASTER, "heartbeat_ms": HEARTBEAT_MS, "tez_reuse": False},
            "decision": {"tick_ms": HEARTBEAT_MS},
        }
    ).with_jobs(arranged(jobs))
    found = {}
    for name, file in ((OURS, SHORT), (BASELINE, BASELINE)):
        outcome = run_line(RunSpec(scenario, name, chosen(file, scenario), seed, check=False, tasks=False))
        if isinstance(outcome.result, FailedRun):
            raise UserError(outcome.result.failure)
        found[name] = float(np.mean(completion_s(outcome.result.jobs)))
    return found


LAYOUTS: Final = {"gains-sls": Layout("Mean completion time under fair-finish over that under fair", ("point", ""))}


def results_of(draws: Sequence[PointDraw]) -> Results:
    """Return the ratios of all draws, and whether the machine kept up."""
    rows = [row for draw in draws for row in _rows(draw)]
    return Results(
        LAYOUTS,
        {"gains-sls": rows},
        facts_of(draws) | {"points": [draw.point.x for draw in draws]},
        {"pace": pace_table(draws)},
    )


def _rows(draw: PointDraw) -> Iterator[Row]:
    real = {name: mean(job.completion_ms for job in run.jobs) / 1000 for name, run in draw.runs.items()}
    for series, means in (("ResourceManager", real), ("simulator", draw.simulated_s)):
        yield Row("fair-finish over fair", series, draw.point.x, draw.seed, means[OURS] / means[BASELINE], RATIO)

"""A script on the testbed, under the stock scheduler and Treadle: all of it runs where it may. No time is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.dag import Dag, Stage
from treadle_lab.cli._experiments import setting_of_testbed
from treadle_lab.papers.hdrf.facebook import GPU_LEAF, LEAVES, queue_of
from treadle_lab.papers.hdrf.sls import SCHEMES, cluster_of, scheduling
from treadle_lab.papers.phoenix.sls import ALLOCATOR, POLICY
from treadle_lab.sls.play import Cluster, KeptPlays, Player, Scheduling, Script, ScriptedJob, map_reduce, stages_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1200)]

CLUSTER = Cluster(10, 5_120, 8)
TASK = {"memory-mb": 1024, "vcores": 1}
CHAIN = Dag(
    "chain", tuple(Stage(id_, 3, 400, {"memory-mb": 512.0 * (id_ + 1)}, (id_ - 1,) * (id_ > 0)) for id_ in (0, 1, 2))
)
SCRIPT = Script(
    (
        ScriptedJob("words", 0, map_reduce([300] * 60, TASK, [200, 200])),
        ScriptedJob("needs", 100, map_reduce([200] * 12, TASK), requires={"zone": "special"}),
        ScriptedJob("chain", 200, stages_of(CHAIN), type="TEZ"),
    ),
    {CLUSTER.host(3): {"zone": "special"}},
)
SCHEDULINGS = (
    Scheduling("stock", settings=ALLOCATOR),
    Scheduling("treadle", POLICY, settings=ALLOCATOR),
)


@pytest.fixture
def player(tmp_path: Path) -> Player:
    return Player(setting_of_testbed(), tmp_path, KeptPlays(None, "treadle_lab.sls.play"), lambda _: None)


@pytest.mark.parametrize("scheduling", SCHEDULINGS, ids=lambda each: each.name)
def test_every_task_runs_once_where_it_may(scheduling: Scheduling, player: Player) -> None:
    found = player.play(scheduling, SCRIPT, CLUSTER, 1)
    assert [(job.name, job.status, job.containers) for job in found.jobs] == [
        ("words", "SUCCEEDED", 62),
        ("needs", "SUCCEEDED", 12),
        ("chain", "SUCCEEDED", 9),
    ]
    assert [job.misplaced for job in found.jobs] == [0, 0, 0]
    assert found.placed_by_capacity_scheduler == 0
    assert found.jobs[2].completion_ms >= 1_200, "three stages one after the other"
    assert found.jobs[0].completion_ms >= 500, "reduces come after maps"
    assert [len(job.tasks_ms) for job in found.jobs] == [62, 12, 9]
    assert all(end_ms - start_ms >= 100 for job in found.jobs for start_ms, end_ms in job.tasks_ms)
    assert found.pace is not None
    assert found.pace.held_over_work >= 1.0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_h_drfs_tree_runs_with_a_gpu_a_node(scheme: str, player: Player) -> None:
    """Of three nodes with a GPU each three tasks of n1.2 run at a time, and of all others twelve."""
    cluster = cluster_of(3)
    durations_ms = [400] * 15
    jobs = tuple(
        ScriptedJob(
            leaf,
            0,
            map_reduce(durations_ms, {"memory-mb": 1024, "gpu" if leaf == GPU_LEAF else "cpu": 1}),
            queue=queue_of(leaf),
            master_mb=8,
        )
        for leaf in LEAVES
    )
    found = player.play(scheduling(scheme), Script(jobs), cluster, 1)
    assert {job.status for job in found.jobs} == {"SUCCEEDED"}
    assert {len(job.tasks_ms) for job in found.jobs} == {15}
    assert found.placed_by_capacity_scheduler == 0
    spans = {
        job.name: [(job.submitted_ms + start_ms, job.submitted_ms + end_ms) for start_ms, end_ms in job.tasks_ms]
        for job in found.jobs
    }
    assert most_at_a_time(spans.pop(GPU_LEAF)) <= 3
    assert most_at_a_time([span for own in spans.values() for span in own]) <= 12


def most_at_a_time(spans: list[tuple[int, int]]) -> int:
    """Return how many tasks ran at a time at most: each for 400 ms from when its master had the container."""
    begun = [start_ms for start_ms, _ in spans]
    return max(sum(at_ms - 400 < start_ms <= at_ms for start_ms in begun) for at_ms in begun)

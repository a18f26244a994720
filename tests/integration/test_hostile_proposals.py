"""A hundred thousand made-up proposals against a live RM: each turned down for a reason, no limit broken."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.accounts import usage_adds_up
from tests.support.clusters import FaultyCluster
from tests.support.faulty_sidecar import Fault
from tests.support.jobs import Job, sleep_job

pytestmark = pytest.mark.cluster

PROPOSALS = 100_000
MAPS = 10
SEEN_ALIVE = (
    "RejectedOutOfRange",
    "RejectedNegative",
    "RejectedUnknownRequest",
    "RejectedNoPendingAsk",
)
"""Reasons that made-up indices must meet on a small cluster."""

LIMITS = ("RejectedNodeFull", "RejectedUserLimit", "RejectedQueueMaximum")
"""What keeps two jobs that want more than there is from getting it."""


def test_hostile_proposals_break_no_limit(cluster: FaultyCluster) -> None:
    rm = cluster.rm_pid()
    before = cluster.rm.treadle()
    large = {"mapreduce.map.memory.mb": "700"}
    jobs = [
        sleep_job(cluster, f"hostile-{queue}", maps=MAPS, map_ms=2500, queue=queue, settings=large)
        for queue in ("default", "batch")
    ]
    for job in jobs:
        job.wait_containers(3)
    cluster.show_fault(Fault.HOSTILE)
    broken: list[str] = []

    def enough() -> bool:
        broken.extend(broken_limits(cluster))
        return bool(cluster.rm.treadle()["Proposals"] - before["Proposals"] >= PROPOSALS)

    cluster.wait_for(f"{PROPOSALS} hostile proposals", enough, 180)
    cluster.heal()

    assert [job.wait() for job in jobs] == ["SUCCEEDED", "SUCCEEDED"]
    assert broken == []
    assert cluster.rm_pid() == rm
    cluster.wait_for("usage that adds up", lambda: usage_adds_up(cluster))
    cluster.wait_for("fate of every proposal", lambda: unknown_fates(cluster.rm.treadle()) == unknown_fates(before))
    after = cluster.rm.treadle()
    rejected = {
        name: after[name] - before[name] for name in after if name.startswith("Rejected") and name != "Rejected"
    }
    assert sum(rejected.values()) == after["Rejected"] - before["Rejected"]
    assert [name for name in SEEN_ALIVE if not rejected[name]] == []
    assert any(rejected[name] for name in LIMITS), rejected
    assert rejected["RejectedInternalError"] == 0
    assert placed_no_more_than_asked(jobs)


def unknown_fates(metrics: dict[str, Any]) -> int:
    """Proposals whose fate has not been counted."""
    return int(metrics["Proposals"] - metrics["Committed"] - metrics["Rejected"])


def broken_limits(cluster: FaultyCluster) -> list[str]:
    """Limits that are exceeded now, in words."""
    broken = [
        f"{node['id']} has {node['availMemoryMB']} MB left"
        for node in cluster.rm.nodes()
        if node["state"] == "RUNNING" and node["availMemoryMB"] < 0
    ]
    info = cluster.rm.get("/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
    broken += [
        f"{queue['queuePath']} uses {queue['absoluteUsedCapacity']} % of at most {queue['absoluteMaxCapacity']} %"
        for queue in info["queues"]["queue"]
        if queue["absoluteUsedCapacity"] > queue["absoluteMaxCapacity"] + 0.01
    ]
    return broken


def placed_no_more_than_asked(jobs: list[Job]) -> bool:
    """Did no job get more than a master, its maps and a reduce need, each tried twice at most?"""
    return all(job.containers() <= 2 * (1 + MAPS + 1) for job in jobs)

"""The agreement of simulator and mini cluster: everything but the cluster."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.support.agreement import (
    JOBS,
    POLICIES,
    AuditedApplication,
    Both,
    Trace,
    completion_errors,
    duration_s,
    launch_ms,
    misses,
    phases,
    queue_entries,
    read_audit_log,
    real_trace,
    simulated_trace,
)

from treadle.config.reader import parse_settings

BEGINS_S = {"a1": 0.0, "b1": 22.0, "c1": 22.5, "a2": 23.0}


@cache
def simulated(policy: str) -> Trace:
    return simulated_trace(BEGINS_S, parse_settings("t.yaml", POLICIES[policy]), launch_ms=400, tick_ms=10)


def both(policy: str = "hdrf") -> Both:
    return Both(policy, simulated(policy), simulated(policy), {"treadle": 266, "native": 0})


@pytest.mark.parametrize(
    ("policy", "together"), [("capacity", {"a": 16, "b": 0, "c": 16}), ("hdrf", {"a": 8, "b": 8, "c": 16})]
)
def test_the_simulator_reaches_the_shares_of_the_policy(policy: str, together: dict[str, int]) -> None:
    run = both(policy)
    alone, shared = phases(run)
    assert alone.simulated == {"a": 16, "b": 0, "c": 0}
    assert shared.simulated == pytest.approx(together, abs=1)
    assert misses(run) == []
    for job in JOBS:
        trace = run.simulated.jobs[job.name]
        assert sum(change for _, change in trace.changes) == 0
        assert trace.begin_s < trace.all_given_s < trace.end_s


def test_what_does_not_agree_is_reported() -> None:
    run = both()
    late = replace(run.simulated.jobs["c1"], end_s=2 * run.simulated.jobs["c1"].end_s)
    jobs = {**run.simulated.jobs, "c1": late}
    more = replace(jobs["b1"], changes=((0.0, 3), *jobs["b1"].changes))
    found = misses(replace(run, simulated=Trace({**jobs, "b1": more})))
    assert any("c1 is off by" in text for text in found)
    assert any("a1 alone: b has 0 containers, 3 simulated" in text for text in found)
    assert completion_errors(run)["c1"] == 0


AUDIT = """\
2026-01-02 10:00:00,000 USER=me	OPERATION=Submit Application Request	RESULT=SUCCESS	APPID=application_17_0001
2026-01-02 10:00:01,000 USER=me	OPERATION=AM Allocated Container	TARGET=SchedulerApp	RESULT=SUCCESS	\
APPID=application_17_0001	CONTAINERID=container_17_0001_01_000001	RESOURCE=<memory:256, vCores:1>
2026-01-02 10:00:04,500 USER=me	IP=127.0.0.1	OPERATION=Register App Master	RESULT=SUCCESS	\
APPID=application_17_0001	APPATTEMPTID=appattempt_17_0001_000001
2026-01-02 10:00:05,000 USER=me	OPERATION=AM Allocated Container	TARGET=SchedulerApp	RESULT=SUCCESS	\
APPID=application_17_0001	CONTAINERID=container_17_0001_01_000002	RESOURCE=<memory:128, vCores:1, cpu: 1>
2026-01-02 10:00:12,250 USER=me	OPERATION=AM Released Container	TARGET=SchedulerApp	RESULT=SUCCESS	\
APPID=application_17_0001	CONTAINERID=container_17_0001_01_000002	RESOURCE=<memory:128, vCores:1, cpu: 1>
"""


def test_the_audit_log_tells_containers_and_how_long_they_took_beyond_their_sleep(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_text(AUDIT)
    (application,) = read_audit_log(tmp_path / "audit.log").values()
    assert duration_s(2) == 4.74
    assert application.overheads_s == [pytest.approx(2.51)]
    assert launch_ms([1.25, 1.0, 1.5], 625.0) == 625
    trace = real_trace({"a1": application})
    assert [change for _, change in trace.jobs["a1"].changes] == [1, -1]
    assert [second for second, _ in trace.jobs["a1"].changes] == pytest.approx([0.5, 7.75])
    assert trace.jobs["a1"].completion_s == pytest.approx(7.75)
    assert trace.containers("a", [0.0, 0.6, 8.0]) == [0, 1, 0]
    assert AuditedApplication().overheads_s == []


def test_queues_of_the_cluster_add_up() -> None:
    entries = queue_entries()
    assert float(entries["yarn.scheduler.capacity.root.n1.capacity"]) == 75
    assert float(entries["yarn.scheduler.capacity.root.n2.b.capacity"]) == 50

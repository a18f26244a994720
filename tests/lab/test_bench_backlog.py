"""The load that only schedulers bound: what it sets, what it finds, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.lab.test_bench_results import histogram

from treadle_lab.bench.backlog import BACKLOG_MODES, RATE, BacklogLoad, rate_of
from treadle_lab.bench.cluster import Figures, Rounds, behind
from treadle_lab.sls.run import BenchError, CpuSample, Run, yarn_site

LOAD = BacklogLoad(nodes=100, jobs=20, tasks=10_000, task_ms=1)


def measurements(**changes: Any) -> dict[str, Any]:
    """Return a run whose window is from 10 s to 20 s, with 40,000 commits."""
    seen: dict[str, Any] = {
        "origin_epoch_ms": 0,
        "attempts_ended": 0,
        "window": {"start_ms": 10_000.0, "end_ms": 20_000.0, "commits": 40_000, "completions": 39_000},
        "commit_cpu": histogram(40_000, 40_000 * 15_000),
        "heartbeat_wall": histogram(1_000, 10_000_000),
        "heartbeats": {"bucket_ms": 100, "counts": [9] * 100 + [5] * 100 + [9] * 10},
        "allocate_cpu": histogram(200, 40_000 * 20_000),
        "cpu_ns": {"process": 12_000_000_000, "scheduler_events": 40_000 * 30_000, "treadle": 40_000 * 40_000},
        "sample_columns": ["elapsed_ms", "running", "pending"],
        "samples": [[5_000.0, 100_000, 0], [11_000.0, 9_000, 5_000], [19_000.0, 20_000, 100], [21_000.0, 100_000, 0]],
        "shim": {},
        "shim_at_first_container": {},
    }
    return {**seen, **changes}


def rate(containers_per_s: float) -> Figures:
    return rate_of(Run(BACKLOG_MODES["sync"], measurements()), LOAD) | {"containers_per_s": containers_per_s}


@pytest.mark.parametrize("queues", [1, 3, 7, 100, 1_000])
def test_queues_share_the_whole_cluster(queues: int) -> None:
    settings = replace(LOAD, jobs=1_000, tasks=100, queues=queues).capacity_settings
    shares = [round(float(value) * 100) for key, value in settings.items() if key.endswith(".capacity")]
    assert (len(shares), sum(shares)) == (queues, 10_000)


def test_a_mode_keeps_its_own_settings_beside_those_of_the_load() -> None:
    mode = LOAD.mode(BACKLOG_MODES["async-4"])
    assert mode.capacity_settings["yarn.scheduler.capacity.schedule-asynchronously.maximum-threads"] == "4"
    assert mode.capacity_settings["yarn.scheduler.capacity.root.queues"] == "q0,q1,q2"
    site = yarn_site(mode, LOAD, Path("m.json"), "treadle", Path("log"))
    assert site["yarn.sls.nm.memory.mb"] == site["yarn.scheduler.maximum-allocation-mb"] == str(1_000 * 1_024)
    assert site["yarn.sls.am.type.mapreduce"] == "io.treadle.sls.BacklogMaster"


def test_slots_follow_from_the_nodes_unless_they_are_given() -> None:
    assert (LOAD.slots_of_node, LOAD.slots) == (1_000, 100_000)
    assert replace(LOAD, nodes=20_000).slots_of_node == 20
    assert replace(LOAD, slots_per_node=7).slots == 700


def test_the_trace_has_masters_of_one_task() -> None:
    trace = LOAD.trace()
    (job,) = trace["workloads"][0]["job_classes"]
    assert (trace["num_jobs"], job["tasks"][0]["count"]) == (20, {"val": 1})


def test_the_figures_of_a_window() -> None:
    found = rate_of(Run(BACKLOG_MODES["sync"], measurements()), LOAD)
    assert found["containers_per_s"] == 4_000
    assert (found["scheduler_cpu_us"], found["try_commit_cpu_us"], found["jvm_cpu_us"]) == (90.0, 15.0, 300.0)
    assert (found["heartbeat_p99_us"], found["least_free"]) == (90.0, 0.8)
    assert found["heartbeats_share"] == 0.5, "500 in ten seconds, of 100 nodes that send one a second"
    assert math.isnan(found["sidecar_cpu_us"])


def test_nodes_may_send_fewer_heartbeats_and_are_judged_by_these() -> None:
    load = replace(LOAD, heartbeat_ms=2_000)
    site = yarn_site(load.mode(BACKLOG_MODES["treadle"]), load, Path("m.json"), "treadle", Path("log"))
    assert site["yarn.sls.nm.heartbeat.interval.ms"] == "2000"
    assert site["yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"] == "2000"
    assert rate_of(Run(BACKLOG_MODES["sync"], measurements()), load)["heartbeats_share"] == 1.0
    with pytest.raises(BenchError, match="--heartbeat-ms is 99"):
        replace(LOAD, heartbeat_ms=99)


def test_a_mode_that_handles_few_heartbeats_is_named() -> None:
    outcome = [
        Rounds(BACKLOG_MODES[name], rounds)
        for name, rounds in (
            ("sync", (rate(1.0) | {"heartbeats_share": 0.04},)),
            ("async-1", (rate(1.0) | {"heartbeats_share": 0.9},)),
            ("async-2", (None,)),
        )
    ]
    assert behind(outcome) == ["sync"]


def test_what_the_shim_did_before_the_window_does_not_count() -> None:
    shim = {
        "LinkCpuNanos": 9_000_000_000,
        "FrameNanos": 400_000_000,
        "CommitCpuNanos": 1,
        "Rejected": 9,
        "DecideP50Us": 7,
        "DecideP99Us": 9_000,
        "Frames": 215,
    }
    before = {"LinkCpuNanos": 7_000_000_000, "FrameNanos": 0, "CommitCpuNanos": 1, "Rejected": 4, "Frames": 13}
    seen = measurements(shim=shim, shim_at_first_container=before)
    samples = [CpuSample(9_000, 50.0), CpuSample(20_000, 50.2)]
    found = rate_of(Run(BACKLOG_MODES["treadle"], seen, samples), LOAD)
    assert (found["link_cpu_us"], found["frame_us"], found["commit_cpu_us"]) == (50.0, 10.0, 0.0)
    assert (found["rejected"], found["placed_by_capacity_scheduler"], found["decide_p99_us"]) == (5, 0, 9_000)
    assert found["decide_p50_us"] == 7
    assert found["sidecar_cpu_us"] == pytest.approx(5.0)
    assert found["decide_cpu_us"] == pytest.approx(200_000 / 202), "of the 202 decisions since"


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ([15_000.0, 95_000, 10], "only 5 % of 100,000 slots were free.*more --slots-per-node than 1000"),
        ([15_000.0, 1_000, 0], "the asks ran out.*more --tasks than 10,000"),
    ],
)
def test_a_run_that_something_else_bounded_is_no_result(sample: list[float], said: str) -> None:
    seen = measurements(samples=[*measurements()["samples"], sample])
    with pytest.raises(BenchError, match=said):
        rate_of(Run(BACKLOG_MODES["sync"], seen), LOAD)


def test_a_load_that_came_to_an_end_is_no_result() -> None:
    with pytest.raises(BenchError, match="20 application masters ended"):
        rate_of(Run(BACKLOG_MODES["sync"], measurements(window=None, attempts_ended=20)), LOAD)


def test_ratios_are_of_the_rounds_that_both_came_through() -> None:
    def rounds(mode: str, *rates: float | None) -> Rounds:
        return Rounds(BACKLOG_MODES[mode], tuple(None if each is None else rate(each) for each in rates))

    outcome = [
        rounds("sync", 1_000, 1_000, 1_000),
        rounds("observe", 900, 900, 900),
        rounds("async-1", 2_000, None, 4_000),
        rounds("treadle", 3_000, 90_000, 6_000),
        rounds("floor", None, None, None),
    ]
    compared = RATE.comparison(outcome)
    assert compared["best_stock_mode"] == "async-1"
    assert compared["rate_ratio"]["mean"] == pytest.approx(1.5)
    assert compared["observe_rate_ratio"]["mean"] == pytest.approx(0.9)
    assert compared["floor_ratio"] is None
    assert RATE.best_stock([rounds("sync", None)]) is None

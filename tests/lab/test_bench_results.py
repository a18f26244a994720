"""From measurements to figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from treadle_lab.bench.cluster import SPAN, Figures, Rounds, run_rounds, span_of
from treadle_lab.sls.run import MODES, BenchError, CpuSample, Mode, Run, Workload

WORKLOAD = Workload(nodes=10, jobs=1, tasks=3, task_ms=8_000)
"""Four containers, with that of the application master."""


def histogram(count: int, total_ns: int) -> dict[str, int]:
    return {"count": count, "total_ns": total_ns, "p50_ns": 10_000, "p99_ns": 90_000, "max_ns": 100_000}


def measurements(**changes: Any) -> dict[str, Any]:
    """Return a run of 4 containers, committed from 1.0 s to 3.0 s, the last of which ended at 11.0 s."""
    seen: dict[str, Any] = {
        "origin_epoch_ms": 1_000_000,
        "attempts_not_finished": 0,
        "commits": {
            "total": 4,
            "first_ms": 1000.0,
            "last_ms": 3000.0,
            "bucket_ms": 500,
            "counts": [0, 0, 1, 2, 0, 0, 1],
        },
        "completions": {"total": 4, "first_ms": 8000.0, "last_ms": 11_000.0, "bucket_ms": 500, "counts": []},
        "commit_wall": histogram(4, 80_000),
        "commit_cpu": histogram(4, 60_000),
        "heartbeat_wall": histogram(100, 1_000_000),
        "heartbeats": {"bucket_ms": 500, "counts": [5] * 30},
        "allocate_cpu": histogram(10, 1_000_000),
        "cpu_ns": {
            "process": 20_000_000_000,
            "scheduler_events": 2_000_000,
            "treadle": 1_000_000,
            "simulators": 9_000_000,
        },
        "sample_columns": ["elapsed_ms", "running", "stale_nodes"],
        "samples": [[500.0, 0, 50], [2000.0, 3, 2], [10_000.0, 4, 4], [12_000.0, 0, 90]],
        "shim": {},
        "shim_at_first_container": None,
    }
    return {**seen, **changes}


def figures(**changes: float) -> Figures:
    return span_of(Run(MODES["sync"], measurements()), WORKLOAD) | changes


def test_the_figures_of_a_stock_run() -> None:
    found = span_of(Run(MODES["sync"], measurements()), replace(WORKLOAD, tasks=4))
    assert found["span_s"] == 10.0
    assert found["try_commit_cpu_us"] == 15.0
    assert found["heartbeats_share"] == 1.0, "ten a second, of ten nodes"
    assert found["scheduler_cpu_us"] == 1_000.0, "event thread 2 ms, shim 1 ms, masters' calls 1 ms over 4 containers"
    assert (found["heartbeat_p50_us"], found["heartbeat_p99_us"]) == (10.0, 90.0)
    assert found["stale_nodes_mean"] == 3, "samples outside of the span do not count"
    assert found["jvm_cpu_us"] == 5_000_000.0
    assert found["rejected"] == 0
    assert math.isnan(found["sidecar_cpu_us"])
    assert found["containers_missing"] == 1
    assert math.isnan(found["decide_p50_us"])


def test_the_figures_of_the_shim_and_its_sidecar() -> None:
    shim = {"Rejected": 3, "PlacedByCapacityScheduler": 2, "DecideP50Us": 400, "DecideP99Us": 900, "FrameNanos": 50_000}
    seen = measurements(shim=shim, shim_at_first_container={"FrameNanos": 10_000})
    samples = [
        CpuSample(1_000_500, 7.0),
        CpuSample(1_000_900, 8.0),
        CpuSample(1_010_900, 8.5),
        CpuSample(1_020_000, 9.0),
    ]
    found = span_of(Run(MODES["treadle"], seen, samples), WORKLOAD)
    assert (
        found["rejected"],
        found["placed_by_capacity_scheduler"],
        found["decide_p50_us"],
        found["decide_p99_us"],
    ) == (
        3,
        2,
        400,
        900,
    )
    assert found["frame_us"] == 10.0
    assert found["sidecar_cpu_us"] == 0.5e6 / 4, "what it used to start does not count"
    assert found["scheduler_cpu_us"] == 1_000.0 + 0.5e6 / 4


def test_rounds_give_the_median_but_the_worst_of_what_must_not_happen() -> None:
    rounds = (figures(span_s=10.0, rejected=0), figures(span_s=30.0, rejected=5), figures(span_s=11.0, rejected=0))
    combined = Rounds(MODES["treadle"], rounds)
    assert (combined.median("span_s"), combined.median("rejected")) == (11.0, 5)


def test_modes_take_turns_and_a_round_that_gives_no_figures_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    written: list[int] = []

    def simulate(mode: Mode, _: object, folder: Path, progress: partial[None]) -> Run:
        ran.append(folder.name)
        return Run(mode, failure="it ended" if progress.args == ("floor, round 2 of 2",) else None)

    monkeypatch.setattr("treadle_lab.sls.run.simulate", simulate)

    def judge(run: Run) -> Figures:
        if run.mode.name == "sync":
            raise BenchError("the asks ran out")
        return figures()

    modes = [MODES["sync"], MODES["floor"]]
    setting: Any = None
    found = run_rounds(modes, 2, setting, lambda *_: None, judge, tmp_path, lambda known: written.append(len(known)))
    assert ran == ["1-sync", "1-floor", "2-floor", "2-sync"]
    assert written == [2] * 4
    assert [each.failures for each in found] == [
        ("round 1: the asks ran out", "round 2: the asks ran out"),
        ("round 2: it ended",),
    ]
    assert [[shown is None for shown in each.rounds] for each in found] == [[True, True], [False, True]]


def outcome(**spans: float | None) -> list[Rounds]:
    return [
        Rounds(MODES[name.replace("_", "-")], (None if span is None else figures(span_s=span),))
        for name, span in spans.items()
    ]


def test_treadle_is_compared_with_the_better_stock_mode_and_with_the_floor() -> None:
    found = SPAN.comparison(outcome(sync=53.0, async_1=50.0, async_2=60.0, treadle=30.0, floor=25.0))
    assert found["best_stock_mode"] == "async-1"
    assert found["span_ratio"]["mean"] == 0.6
    assert found["floor_ratio"]["mean"] == 1.2
    assert found["floor_to_stock"]["mean"] == 0.5


def test_what_did_not_run_has_no_ratio() -> None:
    found = SPAN.comparison(outcome(sync=None, treadle=30.0))
    assert found == {
        "best_stock_mode": None,
        "span_ratio": None,
        "floor_ratio": None,
        "floor_to_stock": None,
        "observe_span_ratio": None,
        "observe_cpu_ratio": None,
    }


def test_what_observing_costs_is_told_by_the_same_scheduler_alone() -> None:
    found = SPAN.comparison(outcome(sync=50.0, async_1=20.0, observe=55.0))
    assert found["best_stock_mode"] == "async-1"
    assert found["observe_span_ratio"]["mean"] == pytest.approx(1.1)
    assert found["observe_cpu_ratio"]["mean"] == 1.0


def test_the_json_has_no_nan_and_keeps_failures() -> None:
    failed: Rounds = Rounds(MODES["async-2"], (None,), ("round 1: nothing has happened for 120 s",))
    assert json.loads(json.dumps(failed.as_json(), allow_nan=False)) == {
        "kind": "stock",
        "median": None,
        "rounds": [None],
        "failures": ["round 1: nothing has happened for 120 s"],
    }
    (sync,) = outcome(sync=53.0)
    assert sync.as_json()["median"]["decide_p50_us"] is None


def test_the_table_has_a_column_for_each_mode() -> None:
    table = SPAN.table([*outcome(sync=53.0, treadle=30.0), Rounds(MODES["floor"], (None,), ("broken",))])
    assert [column.header for column in table.columns] == ["", "sync", "treadle", "floor"]
    assert list(table.columns[3].cells) == ["failed"] * table.row_count
    assert "span, treadle to sync: 0.566" in str(table.caption)


@pytest.mark.parametrize(("start", "end", "expected"), [(0, 400, 1.0), (150, 250, 1.0), (250, 900, 2.0)])
def test_the_sidecars_time_is_taken_between_the_samples_next_to_the_span(start: int, end: int, expected: float) -> None:
    run = Run(MODES["treadle"], {}, [CpuSample(100, 1.0), CpuSample(200, 2.0), CpuSample(500, 4.0)])
    assert run.sidecar_cpu_between(start, end) == pytest.approx(expected)

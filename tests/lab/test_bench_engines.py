"""`treadle bench engines`: its load, its rosters, and from waits to figures."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.optional import present

from treadle.cli.main import run as treadle
from treadle.config.reader import read_settings
from treadle.policy.catalogue import register_parts
from treadle_lab.bench import engines
from treadle_lab.bench.engines import (
    LONG_QUEUE,
    SHORT_QUEUE,
    PacedLoad,
    Rosters,
    Row,
    Tasks,
    Thought,
    Waits,
    copies_table,
    engines_of,
    measured,
    quantile,
    ratio_of,
    side_of,
    waits_of,
)
from treadle_lab.rows import text
from treadle_lab.sls.load import MODES, BenchError, Workload
from treadle_lab.sls.run import Run

COLUMNS = ["queue", "master_asked_ms", "master_wait_ms", "tasks_asked_ms", "tasks_wait_ms"]


def run_with(rows: list[list[Any]], **changes: Any) -> Run:
    seen = {"wait_columns": COLUMNS, "waits": rows, "shim": {"PlacedNatively": 0, "Rejected": 2}, "engines": {}}
    return Run(MODES["treadle"], seen | changes)


def test_the_load_comes_over_time_in_two_queues() -> None:
    load = PacedLoad(10, 100, 3, 1_000, per_s=5.0, long_per_s=1.0)
    trace = load.trace()
    weights = {each["queue_name"]: each["workload_weight"] for each in trace["workloads"]}
    assert weights == {SHORT_QUEUE: 4.0, LONG_QUEUE: 1.0}
    assert trace["num_jobs"] == 100
    assert load.settings["treadle.bench.arrivals"] == "5.0"
    with pytest.raises(BenchError, match="--per-s is 1: it must lie between 2"):
        PacedLoad(10, 100, 3, 1_000, per_s=1.0, long_per_s=1.0)


def test_waits_count_after_the_warm_up_and_of_short_jobs_only() -> None:
    rows = [
        [SHORT_QUEUE, 1_000.0, 50.0, 2_000.0, 70.0],
        [SHORT_QUEUE, 4_000.0, 5.0, 5_000.0, 7.0],
        [f"root.{SHORT_QUEUE}", 6_000.0, 6.0, 7_000.0, 8.0],
        [LONG_QUEUE, 5_000.0, 5_000.0, 12_000.0, 5_000.0],
    ]
    found = waits_of(run_with(rows), warm_ms=3_000)
    assert sorted(found.both_ms.tolist()) == [5.0, 6.0, 7.0, 8.0]
    with pytest.raises(BenchError, match="no job of queue etl came after the first 9 s"):
        waits_of(run_with(rows), warm_ms=9_000)
    with pytest.raises(BenchError, match="some job of queue etl was never served"):
        waits_of(run_with([*rows, [SHORT_QUEUE, 8_000.0, 3.0, 9_000.0, -1.0]]), warm_ms=3_000)


def waits(seed: int, times: float = 1.0) -> Waits:
    random = np.random.default_rng(seed)
    return Waits(times * random.gamma(4.0, 5.0, 200), times * random.gamma(4.0, 5.0, 200))


def test_a_ratio_of_likes_is_about_one_and_within_its_interval() -> None:
    found = ratio_of([waits(1), waits(2)], [waits(3), waits(4)], 0.99)
    assert found.low < 1 < found.high
    assert found.low < found.mean < found.high
    slow = ratio_of([waits(1, 20), waits(2, 20)], [waits(3), waits(4)], 0.99)
    assert slow.low > 10
    assert found == ratio_of([waits(1), waits(2)], [waits(3), waits(4)], 0.99), "the same draws each time"


def test_a_mode_is_pooled_over_its_runs() -> None:
    pooled = [Waits(np.array([1.0, 2.0]), np.array([3.0])), Waits(np.array([4.0]), np.array([5.0]))]
    assert quantile(pooled, 0.5) == 3.0
    side = side_of("alone", [run_with([]), run_with([])], pooled)
    assert (side.runs, side.jobs, side.p50_ms, side.rejected, side.placed_natively) == (2, 2, 3.0, 4, 0)


def test_conflicts_are_counted_by_engine() -> None:
    figures = {"a": {"committed": 10, "rejected": 5}, "b": {"committed": 0, "rejected": 0}}
    found = engines_of(run_with([], engines=figures))
    assert found["a"] == {"committed": 10, "conflicts": 5, "conflict_fraction": 0.5}
    assert found["b"]["conflict_fraction"] is None
    assert list(engines_of(run_with([]))) == [""], "one engine has no name"


def thought(folder: Path) -> ModuleType:
    spec = present(importlib.util.spec_from_file_location("thought", folder / "thought.py"))
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def view(queues: list[int], counts: list[int], awaiting: list[int]) -> Any:
    """Return what a gate sees: a request of each application, whose queue is given."""
    return SimpleNamespace(
        queue_paths=["root", "root.etl", "root.adhoc"],
        requests=np.array([(at,) for at in range(len(queues))], [("application", "i4")]),
        request_count=np.array(counts),
        applications=np.array(list(zip(queues, awaiting, strict=True)), [("queue", "i4"), ("awaiting_am", "u1")]),
    )


def test_every_roster_is_one_that_treadle_takes(tmp_path: Path) -> None:
    register_parts()
    rosters = Rosters(tmp_path)
    modes = [
        rosters.alone("alone"),
        rosters.beside("beside", Thought(5.0)),
        rosters.one("one", Thought(5.0, cpu=True)),
        rosters.copies("copies", 4, Tasks(), ["root.etl"], {"conflicts": "coarse"}),
    ]
    names = []
    for mode in modes:
        settings = read_settings(Path(mode.yarn_settings["yarn.scheduler.treadle.config.file"]))
        names.append([engine.name for engine in settings.engines])
        assert mode.yarn_settings["treadle.bench.engines"] == str(max(1, len(names[-1])))
    assert names == [[], ["long", "short"], [], ["all-1", "all-2", "all-3", "all-4"]]


def test_the_slow_gate_thinks_while_its_queue_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Rosters(tmp_path)
    module = thought(tmp_path)
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    gate = module.ForQueue("root.adhoc", 5.0, False)
    assert gate.allows(view([1, 2], [3, 0], [0, 0])).all()
    assert slept == []
    assert gate.allows(view([1, 2], [0, 1], [0, 1])).all()
    assert slept == [5.0]


def test_the_other_gate_takes_up_one_job_in_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Rosters(tmp_path)
    module = thought(tmp_path)
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    gate = module.ForTasks(["root.etl"], 0.1, 0.005)
    # an AM, two jobs, and one of another queue
    assert gate.allows(view([1, 1, 1, 2], [1, 10, 10, 10], [1, 0, 0, 0])).tolist() == [True, True, False, True]
    assert slept == [pytest.approx(0.15)]


def test_copies_are_measured_by_jobs_served_a_second() -> None:
    rows = [["etl", 0.0, 1.0, 1_000.0, 1_000.0], ["adhoc", 0.0, 1.0, 2_000.0, 3_000.0], ["etl", 0.0, 1.0, -1.0, -1.0]]
    seen = {"completions": {"last_ms": 9_000.0}, "commits": {"first_ms": 1_000.0}}
    found = measured(Row("x", "thinking", 2, "fine", "incremental"), run_with(rows, **seen))
    assert (found.span_s, found.served_per_s) == (8.0, 0.5)
    one = Row("y", "thinking", 1, "fine", "incremental", 4.0, 0.25)
    shown = [text(cell) for cell in copies_table([one, found]).rows[1]]
    assert shown[3:8] == ["incremental", "8.00", "2.00", "0.500", "2.00"]


def test_missed_goals_of_copies_are_said() -> None:
    def row(load: str, copies: int, span_s: float, served: float, **changes: Any) -> Row:
        return replace(Row("x", load, copies, "fine", "incremental", span_s, served), **changes)

    good = [row("fast", 1, 10, 1), row("fast", 2, 10.4, 1), row("fast", 4, 10.9, 1)]
    good += [row("thinking", 1, 10, 2), row("thinking", 4, 10, 6), row("thinking", 4, 10, 1, transactions="gang")]
    assert engines.shortfalls(good) == []
    bad = [row("fast", 1, 10, 1), row("fast", 2, 11, 1), row("thinking", 1, 10, 2), row("thinking", 4, 10, 5)]
    assert engines.shortfalls(bad) == [
        "2 copies: 1.10 of the span of one; the goal is at most 1.05",
        "4 copies: 2.50 of the jobs served by one; the goal is 3",
    ]


def test_the_plan_of_copies_grows_with_the_nodes() -> None:
    full, quick = engines.plan(1_000, False, 1), engines.plan(200, True, 1)
    assert isinstance(full.span, Workload)
    assert full.span.jobs * full.span.tasks == 10_000, "as many tasks as there is room for"
    assert quick.span.jobs < full.span.jobs


def test_rounds_alternate_and_a_failed_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def simulated(mode: Any, *_: object) -> Run:
        ran.append(mode.name)
        return Run(mode, failure="the simulator ended" if mode.name == "beside-busy" else None)

    monkeypatch.setattr(engines, "simulate", simulated)
    plan = engines.Plan(PacedLoad(10, 10, 1, 1_000), 5.0, 2, 0.0)
    setting: Any = None
    outcome = engines.run_engines(plan, setting, tmp_path, lambda *_: None)
    first = ["alone", "beside-asleep", "alone-again", "beside-busy"]
    assert ran == [*first, *reversed(first), "in-one-engine"]
    failures = ["beside-busy, round 1: the simulator ended", "beside-busy, round 2: the simulator ended"]
    assert engines.report(plan, outcome, [], {})["failures"] == failures


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--decision-s", "60"], ["--jobs", "1"]])
def test_what_cannot_be_measured_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert treadle(["bench", "engines", *wrong]) == 2
    assert "--rounds must be at least 1" in capsys.readouterr().err

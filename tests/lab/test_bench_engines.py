"""`treadle lab bench engines`: its load, its rosters, and from waits to figures."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.optional import present

from treadle.config.reader import read_settings
from treadle.policy.catalogue import register_parts
from treadle_lab.bench import engines
from treadle_lab.bench.engines import Row, copies_table, engines_of, measured, mode_of
from treadle_lab.rows import text
from treadle_lab.sls.load import MODES, Workload
from treadle_lab.sls.run import Run

COLUMNS = ["queue", "master_asked_ms", "master_wait_ms", "tasks_asked_ms", "tasks_wait_ms"]


def run_with(rows: list[list[Any]], **changes: Any) -> Run:
    seen = {
        "wait_columns": COLUMNS,
        "waits": rows,
        "shim": {"PlacedByCapacityScheduler": 0, "Rejected": 2},
        "engines": {},
    }
    return Run(MODES["treadle"], seen | changes)


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


FOUR = Row("copies", "thinking", 4, "coarse", "incremental")


@pytest.mark.parametrize("load", ["fast", "thinking"])
def test_copies_have_a_file_that_treadle_takes(load: str, tmp_path: Path) -> None:
    register_parts()
    mode = mode_of(replace(FOUR, load=load), ["root.etl"], tmp_path)
    settings = read_settings(Path(mode.yarn_settings["yarn.scheduler.treadle.config.file"]))
    assert [engine.name for engine in settings.engines] == ["all-1", "all-2", "all-3", "all-4"]
    assert mode.yarn_settings["treadle.bench.engines"] == "4"


def test_the_gate_takes_up_one_job_in_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mode_of(FOUR, ["root.etl"], tmp_path)
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
        "2 copies: 1.10 of the span of one; expected: at most 1.05",
        "4 copies: 2.50 of the jobs served by one; expected: 3",
    ]


def test_the_plan_of_copies_grows_with_the_nodes() -> None:
    full, quick = engines.plan(1_000, False, 1), engines.plan(200, True, 1)
    assert isinstance(full.span, Workload)
    assert full.span.jobs * full.span.tasks == 10_000, "as many tasks as there is room for"
    assert quick.span.jobs < full.span.jobs

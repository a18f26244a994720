"""`treadle lab bench engines`: its load, its rosters, and from waits to figures."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.optional import present

from treadle.config.reader import read_settings
from treadle.policy.catalogue import register_parts
from treadle_lab.bench.engines import conflict_fraction, copies_table, figures_of, loads, mode_of
from treadle_lab.rows import text
from treadle_lab.sls.run import MODES, Run

COLUMNS = ["queue", "master_asked_ms", "master_wait_ms", "tasks_asked_ms", "tasks_wait_ms"]


def run_with(rows: list[list[Any]], **changes: Any) -> Run:
    seen = {
        "wait_columns": COLUMNS,
        "waits": rows,
        "shim": {"PlacedByCapacityScheduler": 0, "Rejected": 2},
        "engines": {},
    }
    return Run(MODES["treadle"], seen | changes)


def test_conflicts_are_those_of_all_engines() -> None:
    figures = {"a": {"committed": 10, "rejected": 5}, "b": {"committed": 10, "rejected": 0}}
    assert conflict_fraction({"shim": {}, "engines": figures}) == 0.25
    assert conflict_fraction({"shim": {"Committed": 4, "RejectedNodeFull": 1, "RejectedLocality": 9}}) == 0.25
    assert conflict_fraction({"shim": {}}) is None


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


@pytest.mark.parametrize("load", ["fast", "thinking"])
def test_copies_have_a_file_that_treadle_takes(load: str, tmp_path: Path) -> None:
    register_parts()
    mode = mode_of(load, 4, ["root.etl"], tmp_path)
    settings = read_settings(Path(mode.yarn_settings["yarn.scheduler.treadle.config.file"]))
    assert [engine.name for engine in settings.engines] == ["all-1", "all-2", "all-3", "all-4"]
    assert mode.yarn_settings["treadle.bench.engines"] == "4"


def test_the_gate_takes_up_one_job_in_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mode_of("thinking", 4, ["root.etl"], tmp_path)
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
    figures = figures_of(run_with(rows, **seen))
    assert (figures["span_s"], figures["served_per_s"]) == (8.0, 0.5)
    two = {"load": "thinking", "copies": 2, **figures, "failure": None}
    one = two | {"copies": 1, "span_s": 4.0, "served_per_s": 0.25}
    failed = {"load": "thinking", "copies": 4, "failure": "it broke"}
    shown = [[text(cell) for cell in row] for row in copies_table([one, two, failed]).rows]
    assert [row[1] for row in shown] == ["1", "2"]
    assert shown[1][1:6] == ["2", "8.00", "2.00", "0.500", "2.00"]


def test_the_loads_of_copies_grow_with_the_nodes() -> None:
    full, quick = loads(1_000, False, 1)["fast"], loads(200, True, 1)["fast"]
    assert full.jobs * full.tasks == 10_000, "as many tasks as there is room for"
    assert quick.jobs < full.jobs

"""`treadle lab reproduce hdrf --section 5.3`: a scheduler of slots beside H-DRF."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.tables import rows_of

from treadle.cli.main import run
from treadle.dag import Dag, Stage
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle_lab.papers.hdrf import facebook
from treadle_lab.papers.hdrf.facebook import NODES
from treadle_lab.papers.hdrf.slots import SCHEMES, SlotRun, results_of, scenario_of


def bags(_sample: Path, _seed: int) -> Workload:
    """Return one job of tasks that take all the cluster's memory with four slots a server, and more with six."""
    demand = {"memory-mb": 1536.0, "vcores": 1.0}
    return arranged([
        Job("a", 0, Dag("a", (Stage(0, 600, 10_000, demand),)), Framework.MAPREDUCE, queue="n3-1"),
        Job("b", 0, Dag("b", (Stage(0, 10, 10_000, demand),)), Framework.MAPREDUCE, queue="n1-1"),
    ])  # fmt: skip


def test_slots_are_shared_and_memory_is_not_counted() -> None:
    cluster = scenario_of("slots-6").model.cluster
    assert {each.name: each.counted for each in cluster.resources} == {"slot": True, "memory-mb": False}
    assert cluster.contention
    counted = scenario_of("hdrf").model.cluster
    assert all(each.counted for each in counted.resources)
    assert not counted.contention
    queues = scenario_of("slots-4").model.queues
    assert {name: queue.capacity for name, queue in queues.items()} == {"n1": 25, "n2": 25, "n3": 50}


def test_tasks_slow_each_other_down_where_slots_give_out_more_memory_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facebook, "schedule", bags)
    sample = tmp_path / "sample"
    sample.write_text("")
    found = {scheme: SlotRun(sample, scheme, 1).run() for scheme in SCHEMES}
    longest = {scheme: max(each["response_s"]) for scheme, each in found.items()}
    assert longest["hdrf"] == pytest.approx(longest["slots-4"], rel=0.05), "four tasks of 1.5 GB fill a server"
    waves = 600 / (NODES * 6)
    assert longest["slots-6"] >= waves * 10 * 1.5**3, "six tasks of 1.5 GB want half as much again as there is"
    results = results_of({(scheme, 1): each for scheme, each in found.items()})
    assert results.figure("hdrf-slots", "gain of H-DRF, jobs of 0-20 tasks (%)", "slots, 6").mean > 0.0


def test_the_command_writes_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facebook, "JOBS", 8)
    monkeypatch.setattr(facebook, "LARGE_JOBS", 1)
    out = tmp_path / "figures.json"
    command = ["lab", "reproduce", "hdrf", "--section=5.3", "--seeds=1", "--processes=1", f"--out={out}"]
    assert run(command) == 0
    figures = json.loads(out.read_text())
    rows = rows_of(figures, "hdrf-slots")
    assert list(rows) == [("H-DRF (as: paper)",), ("slots, 4",), ("slots, 5",), ("slots, 6",)]
    assert rows["H-DRF (as: paper)",]["over H-DRF's"] == ""
    assert "1732" in figures["tables"]["hdrf-slots"]["rows"][-1]
    assert len(figures["runs"][0]["tasks"]) == 8

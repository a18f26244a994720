"""`treadle reproduce hdrf --section 5.3.2`: the workload on 1,200 servers, what is counted, and the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from treadle.cli.main import run
from treadle.lab.harness.data import FACEBOOK_2010, found
from treadle.lab.reproduce.hdrf import large
from treadle.lab.reproduce.hdrf.facebook import GPU_LEAF, LEAVES, queue_of
from treadle.lab.reproduce.hdrf.large import LargeRun, run_large, scenario_of, schedule
from treadle.lab.reproduce.hdrf.large_report import LargeReport


@pytest.fixture(scope="module")
def sample() -> Path:
    place = found(FACEBOOK_2010)
    assert place is not None
    return place


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a cluster of 24 servers, four with GPUs, for ten minutes."""
    for name, value in {"SERVERS": 24, "GPU_SERVERS": 4, "LENGTH_S": 600.0}.items():
        monkeypatch.setattr(large, name, value)
    schedule.cache_clear()
    yield
    schedule.cache_clear()


def test_jobs_bring_the_load_that_is_asked_for(sample: Path) -> None:
    """In the mean over seeds; a user's gaps differ far more than evenly random ones, so two seeds say little more."""
    schedule.cache_clear()
    jobs = schedule(sample, 1, 0.02).jobs
    work_ms = sum(stage.durations().sum() * stage.demand.get("vcores", 0.0) for job in jobs for stage in job.dag.stages)
    load = work_ms / (1000 * large.LENGTH_S * large.SERVERS * large.CPUS)
    assert 0.01 < load < 0.04
    assert {job.queue for job in jobs} == {queue_of(leaf) for leaf in LEAVES}
    assert max(job.arrival_ms for job in jobs) < 1000 * large.LENGTH_S


def test_tasks_of_one_leaf_want_gpus_and_no_task_wants_more_than_the_paper_has(sample: Path) -> None:
    schedule.cache_clear()
    jobs = schedule(sample, 1, 0.02).jobs
    for job in jobs:
        (stage,) = job.dag.stages
        assert ("gpu" in stage.demand) == ("vcores" not in stage.demand) == (job.queue == queue_of(GPU_LEAF))
        assert 1024 <= stage.demand["memory-mb"] <= 9216
        assert stage.demand.get("vcores", 1) in (1, 2, 3)
    demanding = np.mean([job.dag.stages[0].demand["memory-mb"] not in (1024, 1536) for job in jobs])
    assert 0.0 < demanding < 0.3


def test_slots_count_nothing_but_slots_and_gpus() -> None:
    cluster = scenario_of("slots-12").model.cluster
    assert [group.count for group in cluster.nodes] == [1000, 200]
    assert [group.resources for group in cluster.nodes] == [{"slot": 12}, {"slot": 12, "gpu": 16}]
    assert scenario_of("hdrf").model.cluster.nodes[0].resources == {"memory-mb": 32768, "vcores": 16}


@pytest.mark.usefixtures("small")
def test_more_slots_let_more_run(sample: Path) -> None:
    runs = [LargeRun(sample, scheme, 1, 2.0) for scheme in ("hdrf", "slots-10", "slots-14")]
    results = [run_large(wanted) for wanted in runs]
    ours, ten, fourteen = (each["at_a_time"] for each in results)
    assert ten < fourteen < ours
    assert ten <= 24 * 10
    assert any(each is None for each in results[1]["response_s"]), "the run is stopped with jobs left"
    report = LargeReport(runs, results)
    assert report.gain(2.0, "slots-10", "0-20").mean > report.gain(2.0, "slots-14", "0-20").mean
    assert report.gain(2.0, "hdrf", "0-20").mean == 0.0


@pytest.mark.usefixtures("small")
def test_the_command_writes_figures(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = ["reproduce", "hdrf", "--section=5.3.2", "--load=0.5", "--seeds=1", "--processes=1", f"--json={out}"]
    assert run(command) == 0
    figures = json.loads(out.read_text())
    assert list(figures["loads"]) == ["0.5"]
    assert set(figures["loads"]["0.5"]) == {"hdrf", "slots-10", "slots-12", "slots-14"}
    assert figures["paper"]["gain_percent"]["slots-10"] == [83, 82, 80, 80]


@pytest.mark.parametrize("section", ["5.1", "5.3"])
def test_a_load_is_of_this_section_alone(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "hdrf", f"--section={section}", "--load=0.5"]) == 2
    assert "--load: is of --section 5.3.2" in capsys.readouterr().err

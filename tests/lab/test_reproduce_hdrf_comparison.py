"""`treadle lab reproduce hdrf --section 5.2`: the workload, what is counted, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.cli import Cli
from tests.support.optional import present
from tests.support.tables import rows_of

from treadle.cli.main import run
from treadle.errors import UserError
from treadle_lab.harness.data import FACEBOOK_2010, find_data
from treadle_lab.papers.hdrf import facebook
from treadle_lab.papers.hdrf.facebook import (
    LARGE_LEAVES,
    LEAVES,
    SchemeRun,
    medians,
    queue_of,
    results_of,
    schedule,
)


@pytest.fixture(scope="module")
def sample() -> Path:
    return present(find_data(FACEBOOK_2010))


def test_the_workload_is_the_paper_s_as_far_as_it_is_known(sample: Path) -> None:
    jobs = schedule(sample, 3).jobs
    assert len(jobs) == 100
    assert {job.queue for job in jobs} == {queue_of(leaf) for leaf in LEAVES}
    tasks = [job.dag.stages[0].tasks for job in jobs]
    large = [job for job, count in zip(jobs, tasks, strict=True) if count > 500]
    assert len(large) == 10
    assert {job.queue for job in large} == {queue_of(leaf) for leaf in LARGE_LEAVES}
    for job in jobs:
        (stage,) = job.dag.stages
        gpu = job.queue == "n1-2"
        assert stage.demand == {"memory-mb": stage.demand["memory-mb"], "gpu" if gpu else "vcores": 1}
        assert stage.demand["memory-mb"] in ((1024,) if stage.tasks > 500 else (1024, 1536))
    every = np.concatenate([job.dag.stages[0].durations() for job in jobs])
    assert every.mean() == pytest.approx(20_000, rel=0.05)
    again = schedule(sample, 3).jobs
    assert [job.dag.stages[0].durations().tolist() for job in again] == [
        job.dag.stages[0].durations().tolist() for job in jobs
    ]
    assert [job.arrival_ms for job in schedule(sample, 4).jobs] != [job.arrival_ms for job in jobs]


def test_medians_are_of_the_time_in_which_all_leaves_with_large_jobs_have_jobs() -> None:
    job = np.dtype([("queue", "O"), ("arrival_ms", "i8"), ("end_ms", "i8")])
    jobs = np.array(
        [("root.n1.n1-1", 0, 100), ("root.n1.n1-2", 10, 60), ("root.n3.n3-1", 0, 50), ("root.n2.n2-1", 40, 200)], job
    )
    task = np.dtype([("job", "i8"), ("start_ms", "i8"), ("end_ms", "i8")])
    # n1.1 has nothing from 10 to 50 but 10 ms; n1.2 two tasks; n2.1 is only there for the last 10 ms of that
    tasks = np.array([(0, 0, 10), (0, 30, 40), (0, 60, 100), (1, 10, 60), (1, 10, 60), (2, 0, 50), (3, 45, 200)], task)
    found: dict[str, Any] = medians(SimpleNamespace(jobs=jobs, tasks=tasks))  # type: ignore[arg-type]
    assert {leaf: found[leaf] for leaf in (*LARGE_LEAVES, "n2.1")} == {"n1.1": 0, "n1.2": 2, "n3.1": 1, "n2.1": 0}
    assert np.isnan(found["n2.2"])


def test_naive_h_drf_starves_the_leaf_beside_the_one_with_gpus(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """A smaller cluster and shorter schedule show what the paper's do."""
    for name, value in {"JOBS": 20, "LARGE_JOBS": 3, "TASKS_MAX": 600, "ARRIVE_S": 20.0}.items():
        monkeypatch.setattr(facebook, name, value)
    monkeypatch.setattr(facebook, "NODES", 16)
    monkeypatch.setattr(facebook, "SCHEMES", ("naive", "hdrf"))
    out, kept = tmp_path / "out.json", tmp_path / "kept"
    command = [
        "lab",
        "reproduce",
        "hdrf",
        "--section=5.2",
        "--seeds=1",
        "--processes=1",
        f"--out={out}",
        f"--cache={kept}",
    ]
    said = cli(command).out
    assert "naive H-DRF (Pareto CS)" in said
    document = json.loads(out.read_text())
    tasks, ratios = (rows_of(document, f"hdrf-{name}") for name in ("tasks", "responses"))
    naive, hdrf = (tasks[facebook.TITLES[scheme],] for scheme in ("naive", "hdrf"))
    assert naive["n1.1"]["mean"] < hdrf["n1.1"]["mean"] / 2
    assert naive["n3.1"]["mean"] > hdrf["n3.1"]["mean"]
    over = ratios[facebook.TITLES["naive"],]
    assert over["n3.1"]["mean"] < 1.0 < over["n1.1"]["mean"]
    monkeypatch.setattr(facebook, "simulate", None)  # what is kept does not run
    assert run(command) == 0
    assert json.loads(out.read_text()) == document


def test_runs_that_fail_are_named(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facebook, "NODES", 0)
    with pytest.raises(UserError):
        SchemeRun(sample, "hdrf", 1).run()


def test_a_comparison_has_ratios_of_means() -> None:
    runs = [(scheme, seed) for seed in (1, 2) for scheme in ("naive", "hdrf")]
    figures = [(300.0, 2.0), (100.0, 80.0), (100.0, 4.0), (100.0, None)]
    found = [
        {"median_tasks": dict.fromkeys(LEAVES, count), "response_s": dict.fromkeys(LEAVES, response_s), "end_s": 1.0}
        for response_s, count in figures
    ]
    results = results_of(dict(zip(runs, found, strict=True)))
    naive, hdrf = (facebook.TITLES[scheme] for scheme in ("naive", "hdrf"))
    assert results.figure("hdrf-responses", "response", naive, "n1.1").mean == 2.0
    assert results.figure("hdrf-tasks", "tasks", naive, "n1.1").mean == 3.0
    contended = results.figure("hdrf-tasks", "tasks", hdrf, "n1.1").mean
    assert contended == 80.0, "where a leaf is never contended it does not count"

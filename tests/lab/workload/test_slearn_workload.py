"""SLearn's workloads, built from Google's trace."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from tests.support.google_extract import ExtractJob, write_jobs

from treadle.dag import Dag, Stage
from treadle.workload.generate import poisson
from treadle.workload.job import Workload, loads
from treadle.workload.reading import WorkloadError
from treadle_lab.papers.slearn.trace import GAP_MS, WINDOW_MS, Draws, google_slearn, window_loads

SLOTS = {"memory-mb": 20 * 1024.0, "vcores": 20.0}


@pytest.fixture(scope="module")
def extract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with tables in the form of the extract: a job every 60 s, of 1 to 200 tasks, some not seen."""
    generator = np.random.default_rng(11)
    jobs = []
    for submit_s in range(WINDOW_MS[0] // 1000, WINDOW_MS[1] // 1000, 60):
        wanted = int(generator.choice([1, 2, 10, 150, 200], p=[0.5, 0.3, 0.17, 0.02, 0.01]))
        seen = max(1, wanted // 2) if generator.random() < 0.2 else wanted
        durations_s = (generator.lognormal(3, 1, seen) + 0.1).tolist()
        user, logical_name, name = (int(generator.integers(count)) for count in (5, 20, 40))
        jobs.append(ExtractJob(submit_s, user, logical_name, name, wanted, durations_s))
    return write_jobs(tmp_path_factory.mktemp("google"), jobs)


def arrivals(workload: Workload) -> list[tuple[str, int]]:
    return [(job.id, job.arrival_ms) for job in workload.jobs]


def test_slearn_splits_draws_and_scales(extract: Path) -> None:
    made = google_slearn(Draws(extract, 300, 20), 5)
    history, workload, records = made.history, made.workload, list(chain.from_iterable(made.groups))
    assert [job.id for job in workload.jobs] == [record.id for record in records]
    assert len(workload.jobs) == 300
    middle_ms = sum(WINDOW_MS) / 2
    assert all(record.features.submit_ms < middle_ms for record in history)
    assert all(record.features.submit_ms >= middle_ms for record in records)
    for record, job in zip(records, workload.jobs, strict=True):
        assert job.dag.stages[0].durations().tolist() == record.durations_ms.tolist()
        assert (job.name, job.user) == (record.features.name, record.features.user)
        assert dict(job.dag.stages[0].demand) == {"memory-mb": 1024.0, "vcores": 1.0}
    assert window_loads(workload, SLOTS).mean() == pytest.approx(1.01, rel=0.01)


def test_slearn_lets_tasks_that_were_not_seen_end_with_their_job(extract: Path) -> None:
    made = google_slearn(Draws(extract, 500, 20), 5)
    history, workload, records = made.history, made.workload, list(chain.from_iterable(made.groups))
    assert {record.tasks for record in records} == {1, 2, 10, 150}
    for record in (*history, *records):
        assert record.tasks == record.features.width
    killed = [record for record in records if record.tasks > 1 and (record.durations_ms == 500_000).any()]
    assert len(killed) > 30  # half of their tasks were not seen, and the job took 500 s
    assert all((record.durations_ms == 500_000).sum() == record.tasks // 2 for record in killed)
    stages = {job.id: job.dag.stages[0] for job in workload.jobs}
    assert all(stages[record.id].tasks == record.tasks for record in killed)
    assert all(stages[record.id].duration_ms == round(record.mean_ms) for record in killed)


def test_slearn_is_drawn_by_seed(extract: Path) -> None:
    one, two, other = (google_slearn(Draws(extract, 300, 20), seed).workload for seed in (5, 5, 6))
    assert arrivals(one) == arrivals(two)
    assert arrivals(one) != arrivals(other)


def test_slearn_closes_the_gap(extract: Path) -> None:
    made = google_slearn(Draws(extract, 300, 20), 5)
    workload, records = made.workload, list(chain.from_iterable(made.groups))
    submits = [record.features.submit_ms for record in records]
    assert any(submit < GAP_MS[0] for submit in submits)
    assert any(submit > GAP_MS[1] for submit in submits)
    length_ms = GAP_MS[1] - GAP_MS[0]
    closed = [submit - max(0, min(submit, GAP_MS[1]) - GAP_MS[0]) - submits[0] for submit in submits]
    assert closed[-1] == submits[-1] - submits[0] - length_ms
    factor = workload.jobs[-1].arrival_ms / closed[-1]
    for job, ideal_ms in zip(workload.jobs, closed, strict=True):
        assert job.arrival_ms == pytest.approx(ideal_ms * factor, abs=1.0)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda path: google_slearn(Draws(path, 5_000), 1), "only .* are left after the cut"),
        (lambda path: google_slearn(Draws(path / "tasks_25h.csv" / "x"), 1), "no such file"),
    ],
)
def test_slearn_refuses(call: Callable[[Path], object], expected: str, extract: Path) -> None:
    with pytest.raises(WorkloadError, match=expected):
        call(extract)


def test_slearn_needs_the_job_names(extract: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks_25h.csv").write_text((extract / "tasks_25h.csv").read_text())
    with pytest.raises(WorkloadError, match=r"needs the job names of jobs_29d\.csv"):
        google_slearn(Draws(tmp_path), 1)


def test_windows_have_the_load_of_what_arrives_in_them() -> None:
    dag = Dag("a", (Stage(0, 10, 100_000, {"vcores": 1}),))  # 1,000 s on one core
    workload = poisson(1, 2_000, shape=lambda _generator, _name: dag, mean_gap_ms=100_000)
    found = window_loads(workload, {"vcores": 10})
    assert found.mean() == pytest.approx(loads(workload, {"vcores": 10})["vcores"], rel=0.02)
    assert found.min() >= 0
    assert len(window_loads(poisson(1, 1), SLOTS)) == 1

"""Days drawn from Google's trace, and the scheduler for MapReduce jobs: `treadle lab reproduce omega`, section 6."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.optional import present

from treadle.cli.main import run
from treadle.errors import UserError
from treadle.policy.mapreduce import WorkerPolicy
from treadle_lab.harness.data import FACEBOOK_2010, GOOGLE, find_data
from treadle_lab.models.cell import Cell, JobKind
from treadle_lab.papers.omega import figures
from treadle_lab.papers.omega.figures import Figure
from treadle_lab.papers.omega.points import GoogleDay, Point, read_google_day, run_points
from treadle_lab.papers.omega.specialist import (
    MapReduceJobs,
    read_mapreduce,
    requested_workers,
    run_specialist,
    summary,
)


@pytest.fixture(scope="module")
def google() -> GoogleDay:
    place = present(find_data(GOOGLE))
    return read_google_day(place)


@pytest.fixture(scope="module")
def mapreduce() -> MapReduceJobs:
    place = present(find_data(FACEBOOK_2010))
    return read_mapreduce(place)


def test_a_day_is_like_the_trace_s(google: GoogleDay) -> None:
    days = [google.jobs(seed, 1.0) for seed in range(8)]
    batch = [day.kind == JobKind.BATCH for day in days]
    # 13,512 batch and 1,296 service jobs in 23.64 h
    assert np.mean([own.sum() for own in batch]) == pytest.approx(13_512 * 24 / 23.64, rel=0.03)
    assert np.mean([(~own).sum() for own in batch]) == pytest.approx(1_296 * 24 / 23.64, rel=0.03)
    tasks = np.concatenate([day.tasks[own] for day, own in zip(days, batch, strict=True)])
    duration_s = np.concatenate([day.duration_s[own] for day, own in zip(days, batch, strict=True)])
    assert tasks.mean() == pytest.approx(482_786 / 13_512, rel=0.15)
    assert np.median(duration_s) == pytest.approx(135.4, rel=0.03)
    shapes = np.concatenate([day.cpu for day in days])
    assert len(np.unique(shapes)) > 10
    assert shapes.mean() == pytest.approx(8000 * 0.0265, rel=0.03)
    assert (google.jobs(1, 5.0).kind == JobKind.BATCH).sum() == pytest.approx(5 * batch[1].sum(), rel=0.05)


def test_equal_seeds_draw_equal_days(google: GoogleDay) -> None:
    first, again = google.jobs(7, 1.0), google.jobs(7, 1.0)
    for name in ("arrival_s", "tasks", "duration_s", "cpu", "memory"):
        assert (getattr(first, name) == getattr(again, name)).all()
    assert not np.array_equal(first.arrival_s[:50], google.jobs(8, 1.0).arrival_s[:50])


@pytest.mark.parametrize("machines", [7, 500, 12_500])
def test_exactly_so_much_is_used_at_the_start(google: GoogleDay, machines: int) -> None:
    cell = Cell(machines)
    for seed in (1, 2):
        running, again = google.running(seed, cell), google.running(seed, cell)
        assert int((running.tasks * running.cpu).sum()) == machines * 4000 * 60 // 100
        assert (running.tasks == again.tasks).all()
        assert (running.left_s == again.left_s).all()
        assert (running.tasks > 0).all()
        assert (running.cpu > 0).all()
    assert np.isinf(running.left_s).any()


def test_a_cell_without_the_memory_for_it_is_refused(google: GoogleDay) -> None:
    with pytest.raises(UserError, match="no memory for what runs at the start of Google's day; take more machines"):
        google.running(1, Cell(500, memory_mb=500))


def test_a_day_runs_under_every_architecture(google: GoogleDay) -> None:
    names = ("mono1", "mono2", "mesos", "omega", "omega-seq", "omega-aon", "omega4")
    runs = run_points([Point(name, 2_000, 0.2, 1.0) for name in names], [3], source=google)
    for one in runs:
        assert 0.5 < one.outcome.cpu_utilisation < 0.8
        assert one.outcome.wait_s[JobKind.SERVICE] < 30
    assert [round(one.outcome.unscheduled[JobKind.BATCH], 3) for one in runs] == [0.0] * len(names)


def test_the_command_with_a_google_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tuple(Point(name, 1000, 0.1, 5.0) for name in ("omega", "mesos"))
    monkeypatch.setattr(figures, "GOOGLE_FIGURES", {"14": Figure("small", points, points)})
    command = ["lab", "reproduce", "omega", "--workload", "google", "--figure", "14", "--seeds", "2"]
    for name in ("a", "b"):
        assert run([*command, "--out", str(tmp_path / f"{name}.json")]) == 0
    document, again = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("a", "b"))
    assert document["runs"] == again["runs"]
    assert document["reference"] == [], "the original's runs are of another workload"


def test_users_ask_for_the_largest_usual_number_that_a_job_keeps_busy() -> None:
    maps = np.array([1, 4, 5, 10, 11, 199, 200, 999, 1000, 9999], np.int32)
    expected = [1, 4, 5, 5, 11, 11, 200, 200, 1000, 1000]
    assert requested_workers(maps, np.zeros_like(maps)).tolist() == expected
    assert requested_workers(np.ones_like(maps), maps).tolist() == expected


def test_what_the_scheduler_for_mapreduce_gains(google: GoogleDay, mapreduce: MapReduceJobs) -> None:
    rows = {(row["cluster"], row["policy"]): row for row in summary(run_specialist(google, mapreduce, [1]))}
    assert len(rows) == 2 * len(WorkerPolicy)
    for cluster in "CD":
        requested, parallel, relative = (rows[cluster, policy.name.lower()] for policy in list(WorkerPolicy)[:3])
        assert requested["speedup_p80_of_those_that_can"] == 1.0
        assert parallel["gain"] >= relative["gain"] > 0.0
        assert parallel["speedup_p80_of_those_that_can"] > relative["speedup_p80_of_those_that_can"] > 1.5
        assert relative["speedup_p80_of_those_that_can"] <= 4.0
        assert parallel["used_sd"] > requested["used_sd"], "the use of the cell varies more"
    assert rows["D", "global_cap"]["speedup_p80_of_those_that_can"] > 2.0
    assert rows["C", "global_cap"]["gain"] < rows["D", "global_cap"]["gain"]

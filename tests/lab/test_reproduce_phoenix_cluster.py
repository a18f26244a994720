"""`treadle reproduce phoenix-cluster`: everything but the clusters."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from treadle.events import Names, Tags
from treadle_lab.minicluster import Scheduler
from treadle_lab.papers.phoenix import sls as testbed
from treadle_lab.papers.phoenix.blind import hidden, write_command
from treadle_lab.papers.phoenix.sls import (
    ALLOCATOR,
    POLICY,
    Ended,
    Round,
    Scheme,
    Settings,
    arrivals,
    document,
    plot_completions,
    ratio,
    shortfalls,
    table,
)
from treadle_lab.sls.play import Played, PlayedJob

STOCK = Scheme("stock", Scheduler.CAPACITY)
SETTINGS = Settings(short_jobs=20, short_tasks=2, gap_ms=6_000, long_jobs=4, slots=18)
BLIND = Scheme("blind", Scheduler.TREADLE, POLICY)


def rounds(count: int = 20, ours: float = 0.5) -> list[Round]:
    found = []
    for seed in range(count):
        for scheme, factor in (("stock", 1.0), ("blind", 1.0), ("srpt", 0.6), ("phoenix", ours)):
            short = [Ended(f"short-{n}", True, "SUCCEEDED", round(1000 * factor * n), 0) for n in range(1, 11)]
            long = Ended("long-0", False, "SUCCEEDED", 60_000, 0)
            proposals = 0 if scheme == "stock" else 100
            found.append(Round(seed, scheme, (*short, long), proposals, 30 if scheme == "blind" else 0))
    return found


def test_a_rounds_jobs_depend_on_the_seed_alone_and_load_the_cluster_as_said() -> None:
    settings = SETTINGS
    drawn = arrivals(3, settings)
    assert drawn == arrivals(3, settings) != arrivals(4, settings)
    assert [one.at_ms for one in drawn] == sorted(one.at_ms for one in drawn)
    short, long = [one for one in drawn if one.short], [one for one in drawn if not one.short]
    work = sum(one.tasks * one.task_ms for one in long)
    span = max(one.at_ms for one in short)
    assert work / (settings.slots * span) == pytest.approx(settings.load, rel=0.1)


def test_a_blind_engine_gets_no_requirement() -> None:
    texts = ("", "etl", "treadle:require=zone=a", '{"and":[{"scope":"node"}]}', "treadle:gang=2")
    told = hidden([Names(texts)])
    assert isinstance(told[0], Names)
    assert told[0].texts[:2] == ("", "etl")
    assert told[0].texts[4] == "treadle:gang=2"
    assert not any(text.startswith(("treadle:require", "{")) for text in told[0].texts)
    assert len(set(told[0].texts)) == len(texts)
    assert Tags not in map(type, told)


def test_the_blind_command_runs_the_command_line(tmp_path: Path) -> None:
    command = write_command(tmp_path / "a folder" / "blind")
    assert os.access(command, os.X_OK)
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.startswith("treadle ")


def test_the_report_says_what_is_reached_and_what_is_not(tmp_path: Path) -> None:
    good = rounds()
    assert ratio(good, "phoenix", "stock", "short_p90").mean == pytest.approx(0.5)
    assert shortfalls(good) == []
    assert table(good).row_count == 4
    assert json.loads(json.dumps(document(good, SETTINGS)))["shortfalls"] == []
    assert any("the goal is 0.7" in text for text in shortfalls(rounds(ours=0.8)))
    assert any("200 are needed" in text for text in shortfalls(rounds(count=2)))
    bad = [replace(one, jobs=(replace(one.jobs[0], misplaced=2, status="FAILED"), *one.jobs[1:])) for one in good]
    assert sum("nodes that it does not allow" in text for text in shortfalls(bad)) == len(bad)
    assert sum("ended as FAILED" in text for text in shortfalls(bad)) == len(bad)
    refused = [replace(one, constraint_rejections=2) if one.scheme == "srpt" else one for one in good]
    assert any("proposals were for nodes" in text for text in shortfalls(refused))
    without = [one for one in good if one.scheme != "phoenix"]
    assert any("phoenix did not run" in text for text in shortfalls(without))
    pytest.importorskip("matplotlib")
    plot_completions(good, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_the_testbed_plays_the_same_jobs_for_every_scheduler(tmp_path: Path) -> None:
    size = testbed.Size(50)
    settings = replace(testbed.settings_of(size), short_jobs=5, long_jobs=2)
    script = testbed.script_of(3, settings, size)
    assert script == testbed.script_of(3, settings, size)
    assert len(script.attributes) == 5
    short, long = ([job for job in script.jobs if bool(job.requires) == short] for short in (True, False))
    assert [job.all_tags for job in short] == [("treadle:require=zone=special",)] * 5
    assert [job.all_tags for job in long] == [()] * 2
    durations = long[0].stages[0].durations_ms
    assert sum(durations) / len(durations) == pytest.approx(settings.long_ms, rel=0.1)
    assert settings.slots == 200
    stock, blind = (testbed.scheduling(one, tmp_path / "run") for one in (STOCK, BLIND))
    assert stock.policy is None
    assert ALLOCATOR.items() <= stock.settings.items()
    assert blind.policy == POLICY
    assert blind.sidecar is not None
    assert os.access(blind.sidecar, os.X_OK)


def test_a_run_of_the_testbed_is_a_round_of_the_report() -> None:
    size = testbed.Size(10)
    script = testbed.script_of(1, replace(testbed.settings_of(size), short_jobs=1, long_jobs=1), size)
    jobs = tuple(PlayedJob(job.name, "SUCCEEDED", 900, 10, 3, int(bool(job.requires))) for job in script.jobs)
    found = testbed.round_of("srpt", 1, script, Played(jobs, 1_000, {"Proposals": 50, "RejectedConstraint": 2}))
    assert (found.proposals, found.constraint_rejections) == (50, 2)
    assert {(job.short, job.misplaced) for job in found.jobs} == {(True, 1), (False, 0)}

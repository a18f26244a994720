"""`treadle lab reproduce phoenix-cluster`: everything but the clusters."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.tables import mean_of, rows_of

from treadle.events import Names, Tags
from treadle_lab.papers.phoenix.sls import (
    ALLOCATOR,
    POLICY,
    SCHEMES,
    Size,
    hidden,
    results_of,
    scheduling,
    script_of,
    write_command,
)
from treadle_lab.sls.play import Draw, Played, PlayedJob


def draws(count: int = 20, ours: float = 0.5, **wrong: bool) -> list[Draw]:
    def run(scheme: str, factor: float) -> Played:
        short = [PlayedJob(f"short-{n}", "SUCCEEDED", round(1000 * factor * n)) for n in range(1, 11)]
        if "misplaced" in wrong:
            short[0] = replace(short[0], misplaced=2, status="FAILED")
        rejected = 30 if scheme == "blind" else 2 if scheme == "srpt" and "refused" in wrong else 0
        shim = {} if scheme == "stock" else {"Proposals": 100, "RejectedConstraint": rejected}
        return Played((*short, PlayedJob("long-0", "SUCCEEDED", 60_000)), 60_000, shim)

    factors = dict(zip(SCHEMES, (1.0, 1.0, 0.6, ours), strict=True))
    return [Draw(seed, {scheme: run(scheme, factor) for scheme, factor in factors.items()}) for seed in range(count)]


def shortfalls(found: list[Draw]) -> list[str]:
    return list(results_of(found, Size()).facts["shortfalls"])


def test_a_rounds_jobs_depend_on_the_seed_alone_and_load_the_cluster_as_said() -> None:
    size = Size(nodes=20, short_jobs=20, gap_ms=6_000, long_jobs=4)
    drawn = script_of(3, size).jobs
    assert drawn == script_of(3, size).jobs != script_of(4, size).jobs
    assert [job.at_ms for job in drawn] == sorted(job.at_ms for job in drawn)
    short, long = ([job for job in drawn if bool(job.requires) == requires] for requires in (True, False))
    work_ms = size.long_ms * sum(len(job.stages[0].durations_ms) for job in long)
    span_ms = max(job.at_ms for job in short)
    assert work_ms / (20 * 4 * span_ms) == pytest.approx(size.load, rel=0.1)


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


def test_the_report_says_what_is_reached_and_what_is_not() -> None:
    good = draws()
    written = json.loads(json.dumps(results_of(good, Size()).as_json()))
    over = mean_of(written, "phoenix-testbed-goals", "short jobs' P90", "phoenix over stock")
    assert over == pytest.approx(0.5)
    assert written["shortfalls"] == []
    rows = rows_of(written, "phoenix-testbed")
    assert list(rows) == [(scheme,) for scheme in SCHEMES]
    assert rows["blind",]["turned down"]["mean"] == 30
    assert any("expected: 0.7" in text for text in shortfalls(draws(ours=0.8)))
    assert any("200 are needed" in text for text in shortfalls(draws(count=2)))
    bad = shortfalls(draws(misplaced=True))
    assert sum("nodes that it does not allow" in text for text in bad) == 80
    assert sum("ended as FAILED" in text for text in bad) == 80
    assert any("proposals were for nodes" in text for text in shortfalls(draws(refused=True)))


def test_the_testbed_plays_the_same_jobs_for_every_scheduler(tmp_path: Path) -> None:
    size = Size(50, short_jobs=5, long_jobs=2)
    script = script_of(3, size)
    assert len(script.attributes) == 5
    short, long = ([job for job in script.jobs if bool(job.requires) == short] for short in (True, False))
    assert [job.all_tags for job in short] == [("treadle:require=zone=special",)] * 5
    assert [job.all_tags for job in long] == [()] * 2
    durations = long[0].stages[0].durations_ms
    assert sum(durations) / len(durations) == pytest.approx(size.long_ms, rel=0.1)
    stock, blind = (scheduling(one, tmp_path / "run") for one in ("stock", "blind"))
    assert stock.policy is None
    assert ALLOCATOR.items() <= stock.settings.items()
    assert blind.policy == POLICY
    assert blind.sidecar is not None
    assert os.access(blind.sidecar, os.X_OK)

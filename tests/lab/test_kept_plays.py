"""Runs of the testbed that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle_lab.sls.play import KeptPlays, Pace, Played, PlayedJob


@pytest.fixture(autouse=True)
def _jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"one")
    monkeypatch.setattr("treadle_lab.sls.play.own_jars", lambda: [jar])
    return jar


def played(status: str = "SUCCEEDED") -> Played:
    job = PlayedJob("a", status, 900, 50, 3, planned=True, submitted_ms=7, tasks_ms=((50, 900), (60, -1)))
    return Played((job,), 1_000, {"PlacedNatively": 2}, Pace(0.99, 12.0, 1_000.0, 1.1, 0.4, 2.0))


def never() -> Played:
    pytest.fail("a run that is kept was run again")


def test_a_run_is_kept_by_what_it_depends_on(tmp_path: Path, _jar: Path) -> None:
    kept = KeptPlays(tmp_path / "kept", "treadle_lab.papers.graphene.sls")
    assert kept.get_or_play(played, "bfs", 1) == played()
    assert kept.get_or_play(never, "bfs", 1) == played()
    other = Played((), 7, {})
    assert kept.get_or_play(lambda: other, "bfs", 2) == other
    assert KeptPlays(tmp_path / "kept", "treadle_lab.papers.slearn.sls").get_or_play(lambda: other, "bfs", 1) == other
    assert KeptPlays(tmp_path / "kept", "treadle_lab.papers.graphene.sls").get_or_play(never, "bfs", 1) == played()
    _jar.write_bytes(b"another")
    assert KeptPlays(tmp_path / "kept", "treadle_lab.papers.graphene.sls").get_or_play(lambda: other, "bfs", 1) == other


def test_a_run_with_a_job_that_did_not_succeed_runs_again(tmp_path: Path) -> None:
    kept = KeptPlays(tmp_path / "kept", "treadle_lab.papers.graphene.sls")
    assert kept.get_or_play(lambda: played("UNKNOWN"), 1).jobs[0].status == "UNKNOWN"
    assert kept.get_or_play(played, 1) == played()


def test_without_a_folder_nothing_is_kept() -> None:
    kept = KeptPlays(None, "treadle_lab.papers.graphene.sls")
    assert kept.get_or_play(played, 1) == played()
    other = Played((), 7, {})
    assert kept.get_or_play(lambda: other, 1) == other

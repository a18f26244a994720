"""`treadle bench sweep`: what it says of options that cannot be used, and when something is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.lab.bench.sweep_run import Side, SweepFigures


def test_an_odd_number_of_runs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "sweep", "--runs", "11"]) == 2
    assert "--runs 11: must be even" in capsys.readouterr().err


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert run(["bench", "sweep", "--folder", str(tmp_path)]) == 2
    assert "is not empty; name another one" in capsys.readouterr().err
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize(("same", "failed", "lost"), [(True, 0, False), (False, 0, True), (True, 1, True)])
def test_what_is_lost_is_not_passed_over(same: bool, failed: int, lost: bool) -> None:
    yarn, one = Side(90.0, 50.0, 80.0), Side(110.0, 100.0, 95.0)
    found = SweepFigures(100, 2, 3, 40, failed, 4, same, yarn, one)
    assert found.nothing_lost is not lost
    assert found.speed_up == 2.0
    assert found.as_json()["cores_used"] == 1.6

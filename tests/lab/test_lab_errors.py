"""`treadle lab errors`: how wrong estimators are on an extract of Google's trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import run

DATA = Path(__file__).parents[1] / "data" / "workload"


def test_the_errors_of_estimators_on_an_extract(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("lab", "errors", str(DATA / "google"), "--seeds", "2", "--json")) == 0
    figures = json.loads(capsys.readouterr().out)
    assert list(figures) == ["pilots", "3sigma", "3sigma-tl", "point", "median", "combined"]
    assert figures["pilots"]["jobs"] == 0  # of the job of four tasks one was not seen
    assert run(("lab", "errors", str(DATA / "google"))) == 0
    assert "3sigma-tl" in capsys.readouterr().out
    assert run(("lab", "errors", str(DATA / "none"))) == 2
    assert "no such file" in capsys.readouterr().err

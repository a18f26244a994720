"""`treadle lab errors`: how wrong estimators are on an extract of Google's trace."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli import Cli

DATA = Path(__file__).parents[1] / "data" / "workload"


def test_the_errors_of_estimators_on_an_extract(cli: Cli) -> None:
    figures = json.loads(cli(("lab", "errors", str(DATA / "google"), "--seeds", "2", "--json")).out)
    assert list(figures) == ["pilots", "3sigma", "3sigma-tl", "point", "median", "combined"]
    assert figures["pilots"]["jobs"] == 0  # of the job of four tasks one was not seen
    assert "3sigma-tl" in cli(("lab", "errors", str(DATA / "google"))).out
    assert "no such file" in cli(("lab", "errors", str(DATA / "none")), 2).err

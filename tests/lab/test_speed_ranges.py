"""`make bench-check`: what it reads, and how it judges."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.speed import __main__ as command
from tests.speed import sides
from tests.speed.ranges import Load, Range, Ranges, figure_at, read
from tests.support.command_lines import parse

LOAD = Load(command=("bench", "engine"), figures={"rate": Range(least=0.8), "cost": Range(most=1.25)})


def test_the_file_names_a_commit_of_this_repository() -> None:
    ranges = read()
    known = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=sides.ROOT, capture_output=True, text=True
    )
    if known.stdout.strip() == "false":
        found = subprocess.run(["git", "cat-file", "-e", ranges.commit], cwd=sides.ROOT, capture_output=True)
        assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("load", read().loads.values(), ids=list(read().loads))
def test_this_checkout_takes_the_command_of_a_load(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = []

    def run(side: sides.Side, words: list[str], log: Path) -> None:
        lines.append(shlex.join(words))
        (tmp_path / "report.json").write_text("{}")

    monkeypatch.setattr(sides.Side, "_run", run)
    sides.today().compile(tmp_path)
    sides.today().report(load.command, tmp_path / "sidecar", tmp_path)
    for line in lines:
        parse(line)


@pytest.mark.parametrize(
    ("bound", "ratio", "worse", "better"),
    [
        (Range(least=0.8), 0.79, True, False),
        (Range(least=0.8), 0.81, False, False),
        (Range(least=0.8), 1.24, False, False),
        (Range(least=0.8), 1.26, False, True),
        (Range(most=1.25), 1.26, True, False),
        (Range(most=1.25), 0.81, False, False),
        (Range(most=1.25), 0.79, False, True),
    ],
)
def test_a_ratio_is_worse_beyond_its_bound_and_better_beyond_its_mirror_image(
    bound: Range, ratio: float, worse: bool, better: bool
) -> None:
    assert (bound.is_worse(ratio), bound.is_better(ratio)) == (worse, better)


@pytest.mark.parametrize("bounds", [{}, {"least": 0.8, "most": 1.2}, {"least": 1.2}, {"most": 0.5}, {"lest": 0.8}])
def test_a_figure_has_one_bound(bounds: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Range.model_validate(bounds)


def test_a_figure_is_found_by_its_path() -> None:
    report = {"runs": [{"rate": 3, "name": "x", "none": None}]}
    assert figure_at(report, "runs.0.rate") == 3.0
    for path in ("runs.1.rate", "runs.0.cost", "runs.0.name", "runs.0.none", "runs.x", "runs.0.rate.y"):
        with pytest.raises(KeyError, match=path.replace(".", r"\.")):
            figure_at(report, path)


@pytest.mark.parametrize(
    ("now", "code", "said"),
    [
        ([100.0, 104.0], 0, "as before"),
        ([70.0, 72.0], command.WORSE, "WORSE"),
        ([150.0, 140.0], 0, "better: record this commit"),
    ],
)
def test_the_exit_code_follows_from_the_ratios(
    now: list[float],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    kept, here = sides.Side("recorded", tmp_path / "a"), sides.Side("today", tmp_path / "b")
    rates = {"today": iter(now), "recorded": iter([100.0, 100.0])}
    load = LOAD.model_copy(update={"figures": {"rate": Range(least=0.8)}})
    monkeypatch.setattr(command, "read", lambda: Ranges(commit="a" * 40, rounds=2, loads={"engine": load}))
    monkeypatch.setattr(command, "recorded", lambda commit: kept)
    monkeypatch.setattr(command, "today", lambda: here)
    monkeypatch.setattr(sides.Side, "compile", lambda side, folder: None)
    monkeypatch.setattr(sides.Side, "report", lambda side, *rest: {"rate": next(rates[side.name])})
    assert command.main([]) == code
    assert said in capsys.readouterr().out

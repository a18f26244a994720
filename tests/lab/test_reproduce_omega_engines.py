"""Real engines on the simulated RM agree with Omega's cell, under the same jobs and decision times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.tables import rows_of

from treadle.cli.main import run
from treadle_lab.papers.omega.real_engines import (
    BUSYNESS_WITHIN,
    CONFLICTS_WITHIN,
    Agreement,
    Counted,
    Load,
    cell_counts,
    compare,
    engine_counts,
)


def test_real_engines_and_the_cell_agree_for_an_hour_with_few_conflicts() -> None:
    load = Load(hours=1.0)
    cell, engines = cell_counts(load, 3), engine_counts(load, 3)
    assert min(each.conflicts for each in cell.values()) > 15
    found = compare([cell], [engines])
    assert [each for each in found if not each.within] == []
    assert engines["S"].transactions == pytest.approx(cell["S"].transactions, rel=0.01)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_real_engines_and_the_cell_agree_under_load() -> None:
    load, seeds = Load(), (1, 2)
    cell = [cell_counts(load, seed) for seed in seeds]
    assert min(each.conflicts for counts in cell for each in counts.values()) > 400
    found = compare(cell, [engine_counts(load, seed) for seed in seeds])
    assert {each.figure: each.tolerance for each in found} == {
        "conflict fraction": CONFLICTS_WITHIN,
        "busyness": BUSYNESS_WITHIN,
        "wait (s)": None,
    }
    assert [each for each in found if not each.within] == []


def test_what_differs_too_much_is_not_within() -> None:
    ours = {"S": Counted(0.2, 100, 11, 1.0), "B1": Counted(0.31, 100, 0, 9.0)}
    theirs = {"S": Counted(0.2, 100, 10, 1.0), "B1": Counted(0.30, 100, 0, 1.0)}
    found = {(each.scheduler, each.figure): each for each in compare([theirs], [ours])}
    assert found["S", "conflict fraction"].within
    assert found["S", "conflict fraction"].difference == pytest.approx(0.1)
    assert not found["B1", "busyness"].within
    assert found["B1", "conflict fraction"].within
    assert found["B1", "wait (s)"].within
    assert not Agreement("S", "conflict fraction", 0.0, 0.1, 0.1).within


def test_the_command_prints_both_and_says_if_they_do_not_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    code = run(["lab", "reproduce", "omega-engines", "--hours=0.2", "--seeds=1", "--machines=70", f"--out={out}"])
    found = json.loads(out.read_text("utf-8"))
    assert code == (1 if found["shortfalls"] else 0)
    assert {scheduler for scheduler, _ in rows_of(found, "omega-engines")} == {"S", "B1"}
    shown = capsys.readouterr().out
    assert "conflict fraction" in shown
    assert ("the two do not agree" in shown) == (code == 1)

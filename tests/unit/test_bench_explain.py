"""`treadle bench explain`: every question is answered, and what it measures is the copy that the sidecar makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treadle.cli.main import run
from treadle.config.settings import default_settings
from treadle.explain.situation import copied
from treadle.lab.bench import explain_beside
from treadle.lab.bench.sls_load import BenchError
from treadle.live.explain_process import ExplainProcess


def test_every_question_is_answered_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    sizes = ["--nodes", "6", "--asks", "40", "--questions", "4", "--pairs", "0"]
    assert run(["bench", "explain", *sizes, "--json", str(file)]) == 0
    results = json.loads(file.read_text())
    assert results["beside"] == []
    (result,) = results["questions"]
    assert (result["policy"], result["nodes"], result["asks"], result["questions"]) == ("default", 6, 40, 4)
    assert sum(result["verdicts"].values()) >= 4
    assert 0 < result["explain_p50_ms"] <= result["explain_p99_ms"] <= result["explain_max_ms"]
    assert 0 < result["copy_p50_ms"] <= result["copy_max_ms"]
    assert 0 <= result["cpu_p50_ms"] <= result["cpu_max_ms"]
    assert "explain p50, ms" in capsys.readouterr().out


def test_decisions_are_measured_with_and_without_questions_in_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    sizes = ["--nodes", "6", "--asks", "40", "--questions", "1"]
    pace = ["--pairs", "2", "--decides", "60", "--tick-ms", "10", "--every-ms", "20"]
    assert run(["bench", "explain", *sizes, *pace, "--json", str(file)]) == 0
    (result,) = json.loads(file.read_text())["beside"]
    assert [half["questions"] for half in result["without"]] == [0, 0]
    assert all(half["questions"] > 0 for half in result["asked"]), "a row takes 600 ms at least"
    for half in (*result["without"], *result["asked"]):
        assert 0 < half["p50_ms"] <= half["p99_ms"] <= half["max_ms"]
    expected = [a["p99_ms"] / w["p99_ms"] for a, w in zip(result["asked"], result["without"], strict=True)]
    assert result["p99_ratios"] == pytest.approx(expected, abs=1e-3)
    assert "with/without" in capsys.readouterr().out


def test_a_question_that_fails_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExplainProcess, "answer", lambda *_: b'{"error": "no such luck"}')
    with pytest.raises(BenchError, match="was not answered: no such luck"):
        explain_beside.measure("default", default_settings(), 6, 40, explain_beside.Pace(10, 20, 60, 1))


@pytest.mark.parametrize(
    "column",
    [
        np.zeros(5, np.dtype([("a", np.int8), ("b", np.int64), ("c", np.float64)], align=True)),
        np.arange(12).reshape(3, 2, 2),
        np.empty((0, 3)),
        np.arange(10)[::2],
    ],
)
def test_a_copy_is_equal_and_of_its_own(column: np.ndarray[Any, Any]) -> None:
    found = copied(column)
    assert (found.dtype, found.shape, found.flags.writeable) == (column.dtype, column.shape, True)
    assert np.array_equal(found, column)
    assert not np.shares_memory(found, column)

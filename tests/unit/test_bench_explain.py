"""`treadle bench explain`: every question is answered, and what it measures is the copy that the sidecar makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treadle.cli.main import run
from treadle.explain.situation import copied


def test_every_question_is_answered_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    sizes = ["--nodes", "6", "--asks", "40", "--questions", "4"]
    assert run(["bench", "explain", *sizes, "--json", str(file)]) == 0
    (result,) = json.loads(file.read_text())
    assert (result["policy"], result["nodes"], result["asks"], result["questions"]) == ("default", 6, 40, 4)
    assert sum(result["verdicts"].values()) >= 4
    assert 0 < result["explain_p50_ms"] <= result["explain_p99_ms"] <= result["explain_max_ms"]
    assert 0 < result["copy_p50_ms"] <= result["copy_max_ms"]
    assert 0 <= result["cpu_p50_ms"] <= result["cpu_max_ms"]
    assert "explain p50, ms" in capsys.readouterr().out


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

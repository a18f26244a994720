"""A test that fails is not repeated, unless it is marked as depending on a clock; repetitions are counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FAILS_AT_FIRST = """
from pathlib import Path
import pytest

def attempt(name: str) -> int:
    file = Path(__file__).with_name(name)
    file.write_text((file.read_text() if file.exists() else "") + "x")
    return len(file.read_text())

def test_race():
    assert attempt("race") == 2

{marker}
def test_lease():
    assert attempt("lease") == 2
"""


def run(folder: Path, marker: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_made_up.py").write_text(FAILS_AT_FIRST.format(marker=marker))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.clock_tests", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )


def test_only_a_test_of_a_clock_is_repeated_and_that_is_counted(tmp_path: Path) -> None:
    done = run(tmp_path, '@pytest.mark.clock("a lease")')

    assert done.returncode == 1
    assert (tmp_path / "race").read_text() == "x", "a race shows itself once, and that is enough"
    assert (tmp_path / "lease").read_text() == "xx"
    assert "1 tests depend on a clock; 1 repetitions\n  test_made_up.py::test_lease\n" in done.stdout


def test_the_mark_wants_a_reason(tmp_path: Path) -> None:
    done = run(tmp_path, "@pytest.mark.clock")

    assert done.returncode == 4
    assert "say why it depends on a clock" in done.stderr

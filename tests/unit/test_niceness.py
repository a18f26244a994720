"""How processes of Treadle's make way for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from treadle.process_limits import FIRST

PLACE: Final = Path("/proc/self/oom_score_adj")


@pytest.mark.skipif(not PLACE.exists(), reason="not this system's")
@pytest.mark.parametrize("begins_with", [0, FIRST + 50])
def test_a_sidecar_and_what_it_starts_are_ended_first_when_memory_runs_out(begins_with: int) -> None:
    begins_with = max(begins_with, int(PLACE.read_text("ascii")))  # only root may make it less
    adjust = f"pathlib.Path('{PLACE}').write_text('{begins_with}')"
    child = f"import pathlib; print(pathlib.Path('{PLACE}').read_text())"
    code = f"import pathlib, subprocess, sys; {adjust}; from treadle.process_limits import go_first; go_first(); "
    found = subprocess.run(
        [sys.executable, "-c", f"{code}subprocess.run([sys.executable, '-c', {child!r}])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) == max(begins_with, FIRST)

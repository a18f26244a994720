"""How processes of Treadle's make way for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from treadle.niceness import FIRST


@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="not this system's")
@pytest.mark.parametrize(("begins_with", "ends_with"), [(None, FIRST), (FIRST + 50, FIRST + 50)])
def test_a_sidecar_and_what_it_starts_are_ended_first_when_memory_runs_out(
    begins_with: int | None, ends_with: int
) -> None:
    adjust = "" if begins_with is None else f"open('/proc/self/oom_score_adj', 'w').write('{begins_with}'); "
    child = "import sys; print(open('/proc/self/oom_score_adj').read())"
    code = f"import subprocess, sys; {adjust}from treadle.niceness import go_first; go_first(); "
    found = subprocess.run(
        [sys.executable, "-c", f"{code}subprocess.run([sys.executable, '-c', {child!r}])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) == ends_with

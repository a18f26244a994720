"""Two processes that need the same kernel at the same time: one compiles it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from treadle.compiled.functions import locked

SLOW = """
import sys, time
from numba import config
config.CACHE_DIR = sys.argv[1]
from numba import njit
from treadle.compiled.functions import compiled_once
import kernels
kernel = njit(cache=True)(kernels.kernel)
compiled_once(kernel, sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
kernel(1)
print(sum(kernel.stats.cache_misses.values()))
"""


def test_one_of_two_processes_compiles_and_the_other_finds_it(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("def kernel(x):\n    return x + 1\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW, str(tmp_path / "cache")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    misses = sorted(int(process.communicate("\n")[0]) for process in both)
    assert misses == [0, 1]


def test_who_waits_too_long_goes_on_alone(tmp_path: Path) -> None:
    file = tmp_path / "kernel.lock"
    with locked(file) as first, locked(file, wait_s=0) as second:
        assert (first, second) == (True, False)
    with locked(file, wait_s=0) as again:
        assert again


def test_where_nothing_may_be_written_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with locked(tmp_path / "file" / "kernel.lock") as held:
        assert not held

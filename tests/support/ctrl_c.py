"""Ctrl-C as a terminal sends it: to a command and to all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

from tests.support.waiting import eventually

# Where a shell runs the tests in its background, SIGINT is ignored by them and by what they start.
_HEARS = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("treadle", run_name="__main__", alter_sys=True)
"""


def command_of(*words: str) -> list[str]:
    """Return a command of Treadle's that hears of Ctrl-C."""
    return [sys.executable, "-c", _HEARS, *words]


def interrupted(command: list[str], ready: Callable[[int], bool]) -> tuple[int, str]:
    """Run a command, send Ctrl-C once something holds, and return its exit code and all that was said.

    Args:
        command: as `command_of` returns it
        ready: is given the process's id
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        eventually(lambda: process.poll() is not None or ready(process.pid))
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, said

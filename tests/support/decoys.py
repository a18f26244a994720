"""Processes that look like a ResourceManager or a sidecar."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"

_WAIT = """
import os, sys, time
if sys.argv[1]:
    os.setuid(int(sys.argv[1]))
print("there", flush=True)
time.sleep(900)
"""


@contextmanager
def decoy(*words: str, program: str | None = None, user: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a process with these words, which waits until the end of the block.

    Args:
        words: of its command line, after those that start it
        program: the first word, which the process chooses; else that of this Python
        user: whom it runs as, if this process is root's; else this process's user
    """
    number = str(user) if user is not None and os.geteuid() == 0 else ""
    command = [program or sys.executable, "-c", _WAIT, number, *words]
    process = subprocess.Popen(command, executable=sys.executable, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield process
    finally:
        process.kill()
        process.communicate()

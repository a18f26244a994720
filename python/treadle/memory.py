"""How much memory a process has used."""

from __future__ import annotations

from pathlib import Path


def peak_memory_mb() -> float:
    """Return the most memory (MB) that this process has had resident since its program began.

    `getrusage` does not show that: after fork and exec, its `ru_maxrss` begins with what the parent had.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")

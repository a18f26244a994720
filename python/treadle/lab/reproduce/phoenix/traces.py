"""The traces of the comparison: Google's, and what was made of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from treadle.simulator.workers.trace import Trace, read_trace

CUTOFFS: Final = {"google": (1129.532, 83.0), "yahoo": (90.5811, 98.0), "facebook": (76.5951, 98.0)}
"""Mean duration in s above which a job is long, and the long partition in percent, by how a trace's name begins."""


def any_trace(path: Path) -> Trace:
    """Read a trace, with the cutoff and the partition that its name tells; Google's if it tells none."""
    trace = read_trace(path)
    cutoff_s, percent = next(
        (found for name, found in CUTOFFS.items() if trace.name.startswith(name)), CUTOFFS["google"]
    )
    return replace(trace, cutoff_s=cutoff_s, long_percent=percent)

"""A load whose jobs come one after another: short ones of one queue, and among them a few of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from treadle_lab.sls.load import BenchError, Workload

SHORT_QUEUE: Final = "etl"
LONG_QUEUE: Final = "adhoc"
"""Of jobs that an engine thinks about for long."""

_LARGEST_RATE: Final = 1_000.0


@dataclass(frozen=True)
class PacedLoad(Workload):
    """Jobs that come at random, a number a second in the mean; the seed says when, and which are of `LONG_QUEUE`."""

    per_s: float = 5.0
    long_per_s: float = 0.4
    """How many of these are of `LONG_QUEUE`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 * self.long_per_s <= self.per_s <= _LARGEST_RATE:
            least = 2 * self.long_per_s
            raise BenchError(f"--per-s is {self.per_s:g}: it must lie between {least:g} and {_LARGEST_RATE:g}")

    @property
    def settings(self) -> dict[str, str]:
        """Return what lets the simulator start jobs one after another; by itself it starts all at once."""
        return {
            "yarn.sls.am.type.mapreduce": "io.treadle.sls.PacedMaster",
            "treadle.bench.arrivals": str(self.per_s),
            "treadle.bench.arrivals.seed": str(self.seed),
        }

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace."""
        trace = super().trace()
        parts = {SHORT_QUEUE: self.per_s - self.long_per_s, LONG_QUEUE: self.long_per_s}
        of_parts = [each for each in trace["workloads"] if each["queue_name"] in parts]
        for each in of_parts:
            each["workload_weight"] = parts[each["queue_name"]]
        return trace | {"workloads": of_parts}

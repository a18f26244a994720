"""Makes the recordings of tests/data/recordings anew: ``python -m tests.support.make_recordings`` from the root."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.wired import Clock, wired

from treadle.live.recorder import LiveRecorder

ROOT = Path(__file__).parents[1] / "data"

SCENARIO = """
cluster: {nodes: [{count: 6, resources: {memory-mb: 16384, vcores: 8}, racks: 2}]}
queues: {research: {capacity: 60}, production: {capacity: 40}}
workload:
  generator:
    {shape: map_reduce, framework: mapreduce, jobs: 8, load: 0.9, users: 2, demand: {memory-mb: 4096, vcores: 1},
     tasks: {kind: pareto, tail: 0.8, low: 4, high: 40}, queues: {research: 1, production: 1}}
decision: {limit: 16, tick_ms: 500}
duration_limit_s: 150
"""

POLICIES = {
    "default": "seed: 1",
    "learns": "policy: {gate: {kind: pilots}, order: {kind: mlfq, size: whole}, estimate: {kind: combined}}",
}

DECISIONS = 60
"""A segment is due after so many."""


def record(folder: Path, policy: str) -> None:
    """Simulate a cluster under a policy and record it into a folder."""
    with tempfile.TemporaryDirectory() as place:
        scenario = Path(place) / "scenario.yaml"
        scenario.write_text(SCENARIO)
        clock = Clock()
        recorder = LiveRecorder(clock_s=clock, keys_for=("TEZ",))
        simulation, _ = wired(scenario, policy, recorder, Path(place) / "rec")
        simulation.run(after_step=lambda: setattr(clock, "now_s", clock.now_s + 60 / DECISIONS))
        recorder._stop("the run is over")
        while recorder._queue:
            recorder._next_item()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(place) / "rec", folder)


def main() -> None:
    """Make those that the command line names, or all."""
    for name in sys.argv[1:] or POLICIES:
        record(ROOT / "recordings" / name, POLICIES[name])


if __name__ == "__main__":
    main()

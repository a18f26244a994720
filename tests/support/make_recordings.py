"""Makes the recordings of tests/data/recordings anew: ``python -m tests.support.make_recordings`` from the root."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.support.wired import Clock, WiredEngine, wired

from treadle.config.reader import parse_settings
from treadle.config.settings import Record
from treadle.live.recorder import LiveRecorder
from treadle.policy.user_parts import Watch, unwatched
from treadle.simulator.scenario import jobs_of, parse_scenario

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
    "deficits": "policy: {share: {kind: deficit}, fit: {kind: random_fit}, estimate: {kind: hints}}",
    "learns": "policy: {gate: {kind: pilots}, order: {kind: mlfq, size: estimated_total}, estimate: {kind: combined}}",
}

DECISIONS = 60
"""After how many a segment is due."""


def record(
    folder: Path,
    policy: str,
    *,
    every: int = DECISIONS,
    during: Callable[[WiredEngine], None] | None = None,
    watch: Watch = unwatched,
) -> None:
    """Simulate a cluster under a policy and record it into a folder, a segment after ``every`` decisions.

    The folder is in no recording: in the repository's it would be a path of whoever made them.
    """
    clock = Clock()
    recorder = LiveRecorder(clock_s=clock, keys_for=("TEZ",))
    scenario = parse_scenario("scenario.yaml", SCENARIO)
    settings = parse_settings("treadle.yaml", policy, trust_code=True)
    recorder.follow(replace(settings, record=Record(folder=str(folder), segment_minutes=1)))
    simulation, engine = wired(scenario, jobs_of(scenario, Path(), 1), settings, recorder, watch)

    def step() -> None:
        clock.now_s += 60 / every
        if during is not None:
            during(engine)

    simulation.run(after_step=step)
    recorder._stop("the run is over")
    recorder.work_off()
    assert not recorder.problem


def main() -> None:
    """Make those that the command line names, or all."""
    for name in sys.argv[1:] or ("default", "learns"):
        folder = ROOT / "recordings" / name
        shutil.rmtree(folder, ignore_errors=True)
        record(folder, POLICIES[name])


if __name__ == "__main__":
    main()

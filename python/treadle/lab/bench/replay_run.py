"""How wrong `treadle replay --policy` is: a simulated cluster is recorded under A, replayed under B, and run under B.

What a recording does not say is there on that cluster: slow attempts, the time in which containers start, AMs of their
own. Which attempts are slow is another matter each time a real cluster runs; what that makes of A alone stands beside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any, Final

from treadle.config.settings import Record, Settings
from treadle.lab.harness.wired import wired
from treadle.live.recorder import LiveRecorder
from treadle.record.folder import segments
from treadle.replay.seen import Seen
from treadle.replay.what_if import Outcome, as_recorded, open_recording, replayed
from treadle.simulate import Run, Scenario, Workload, simulate
from treadle.simulate.batch import settings_of

POLICIES: Final = ("capacity", "srpt", "hdrf", "tetris")
SEEDS: Final = 3
FRAMEWORKS: Final = ("mapreduce", "mapreduce", "mapreduce", "tez", "spark")


@dataclass(frozen=True, slots=True)
class Error:
    """Of makespan and mean completion time, as parts of what there was."""

    makespan: float
    completion_mean: float


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """One workload."""

    workload: int
    framework: str
    recorded: str
    """A, under which it was recorded."""
    replayed: str
    """B, under which it was replayed."""
    jobs: int
    containers: int
    after_s: float | None
    """When B first decided otherwise, since the recording's begin; None: never."""
    effect: Error
    """What B made of it, over A."""
    own: Error
    """The model of A, over what there was."""
    error: Error
    """The model of B, over what B made of it, where the same attempts were slow."""
    error_by_chance: Error | None
    """The same where others were slow, as on a real cluster; None there, where they always are."""
    again: Error
    """A with other chance, over A."""


def scenario_of(number: int, jobs: int) -> Scenario:
    """Return the cluster and the generator of a workload, from 0."""
    framework = FRAMEWORKS[number % len(FRAMEWORKS)]
    generator: dict[str, Any] = {
        "shape": "bag" if framework == "spark" else "map_reduce",
        "framework": framework,
        "jobs": jobs,
        "load": 0.8 + 0.05 * (number % 4),
        "users": 3,
        "demand": {"memory-mb": 2048, "vcores": 1},
        "tasks": {"kind": "pareto", "tail": 1.1, "low": 2, "high": 150},
        "duration_s": {"kind": "lognormal", "mean": 25, "variation": 1},
        "queues": {"research": 2, "production": 1},
    }
    queues = {name: {"capacity": 50, "maximum_am_resource_percent": 30} for name in ("research", "production")}
    return Scenario.of(
        {
            "cluster": {"nodes": [{"count": 10, "resources": {"memory-mb": 16384, "vcores": 8}, "racks": 2}]},
            "queues": queues,
            "workload": {"generator": generator},
            "frameworks": {"master": {"memory-mb": 1024, "vcores": 1}, "master_start_ms": 3000, "launch_ms": 1500},
            "stragglers": {"probability": 0.02},
            "decision": {"tick_ms": 200, "limit": 500},
        }
    )


def pair_of(number: int) -> tuple[str, str]:
    """Return the policies A and B of a workload, from 0."""
    a, b = POLICIES[number % 4], POLICIES[(number + 1 + number // 4) % 4]
    return a, b if a != b else POLICIES[(number + 2) % 4]


def measure(workloads: int, jobs: int, say: Callable[[str], None] = lambda _: None) -> Iterator[ReplayFigures]:
    """Yield the figures of workloads, each with two policies in turn."""
    for number in range(workloads):
        a, b = pair_of(number)
        say(f"workload {number + 1} of {workloads}: {jobs} jobs under {a}, replayed under {b}")
        yield _measured(number, a, b, jobs)


def _measured(number: int, a: str, b: str, jobs: int) -> ReplayFigures:
    scenario = scenario_of(number, jobs)
    workload = scenario.jobs(number + 1)
    settings = settings_of(a, scenario)[1]
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as place:
        folder = Path(place) / "recording"
        _record(folder, scenario, workload, settings)
        recording = open_recording(segments(folder), trust_code=False)
        (found,) = replayed(recording, [b], SEEDS)
    recorded = as_recorded(recording.whole)
    fixed = scenario.with_jobs(workload)
    again, real, other = (
        _figures(simulate(fixed, policy, seed, check=False)) for policy, seed in ((a, 2), (b, 1), (b, 2))
    )
    there = Error(recorded.makespan_s, recorded.mean_s)
    return ReplayFigures(
        workload=number + 1,
        framework=FRAMEWORKS[number % len(FRAMEWORKS)],
        recorded=a,
        replayed=b,
        jobs=len(recording.whole.compared),
        containers=containers_of(recording.seen),
        after_s=None if found.switch is None else found.switch.after_s,
        effect=over(real, there),
        own=over(mean_of(found.of_recorded), there),
        error=over(mean_of(found.outcomes), real),
        error_by_chance=over(mean_of(found.outcomes), other),
        again=over(again, there),
    )


def containers_of(seen: Seen) -> int:
    """Return how many containers ran in a recording, without those of application masters."""
    return sum(len(stage.containers) for job in seen.jobs.values() for stage in job.stages.values())


def _record(folder: Path, scenario: Scenario, workload: Workload, settings: Settings) -> None:
    recorder = LiveRecorder()
    recorder.follow(replace(settings, record=Record(folder=str(folder))))
    simulation, _ = wired(scenario.model, workload, settings, recorder)
    simulation.run()
    recorder.finish("the run is over")


def _figures(run: Run) -> Error:
    return Error(float(run.jobs["end_ms"].max() - run.jobs["arrival_ms"].min()) / 1000, float(run.completion_s.mean()))


def mean_of(outcomes: Sequence[Outcome]) -> Error:
    """Return the mean over outcomes."""
    return Error(mean(each.makespan_s for each in outcomes), mean(each.mean_s for each in outcomes))


def over(one: Error, other: Error) -> Error:
    """Return how far one is off of the other."""
    return Error(one.makespan / other.makespan - 1.0, one.completion_mean / other.completion_mean - 1.0)

"""How wrong `treadle replay --policy` is of a real ResourceManager: Hadoop's load simulator plays nodes and AMs.

Each workload runs three times, at the same time: under a policy A, under B, and under A again. All three are recorded,
so that what is compared is defined alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from treadle.admin.install import find_policy
from treadle.lab.bench.engines_modes import LEASE_MS
from treadle.lab.bench.paced_load import PacedLoad
from treadle.lab.bench.replay_run import SEEDS, Error, ReplayFigures, containers_of, mean_of, over, pair_of
from treadle.lab.bench.sls import Run, Setting, simulate
from treadle.lab.bench.sls_load import BenchError, Mode, Workload, treadle_under
from treadle.record.folder import segments
from treadle.replay.what_if import Recording, as_recorded, open_recording, replayed

ROLES: Final = ("A", "B", "A-again")

TASKS: Final = {"discrete": ["4", "10", "24", "60"], "weights": [0.4, 0.3, 0.2, 0.1]}
REDUCES: Final = {"discrete": ["1", "3"], "weights": [0.6, 0.4]}
TASK_STD: Final = 0.7
"""Of a task's time, over its mean; lognormal."""

_ENDED: Final = "ended"
"""The file that marks a run as complete."""


@dataclass(frozen=True)
class UnequalLoad(PacedLoad):
    """Jobs of four sizes, whose tasks take unequal times; with reduces in every other workload."""

    reduces: bool = False

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace."""
        trace = Workload.trace(self)
        for part in trace["workloads"]:
            for job in part["job_classes"]:
                (maps,) = job["tasks"]
                time = {"val": self.task_ms, "std": TASK_STD * self.task_ms}
                job["tasks"] = [maps | {"count": TASKS, "time": time}]
                if self.reduces:
                    job["tasks"].append(maps | {"type": "reduce", "priority": 10, "count": REDUCES, "time": time})
        return trace


def load_of(number: int, jobs: int) -> UnequalLoad:
    """Return a workload, from 0, on 6 nodes of 10 slots: of about nine tenths of what they can do."""
    return UnequalLoad(
        nodes=6, jobs=jobs, tasks=60, task_ms=6_000, seed=number + 1, per_s=0.5, long_per_s=0.0, reduces=number % 2 == 1
    )


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recordings of a workload by role."""

    number: int
    a: str
    b: str
    folders: dict[str, Path]


def record(number: int, a: str, b: str, jobs: int, setting: Callable[[UnequalLoad], Setting], folder: Path) -> Recorded:
    """Run a workload in its three roles at the same time; what is in the folder already does not run again.

    Raises:
        BenchError: a run gave no result.
    """
    load = load_of(number, jobs)
    found = {}
    waiting: dict[str, tuple[Path, Mode]] = {}
    for role in ROLES:
        policy = b if role == "B" else a
        own = folder / f"{number + 1:02d}-{role}-{policy}"
        found[role] = own / "recording"
        if not (own / _ENDED).exists():
            waiting[role] = own, _mode(f"{role} {policy}", policy, own, load)
    with ThreadPoolExecutor(len(ROLES)) as pool:
        runs = {role: pool.submit(_run, mode, setting(load), own) for role, (own, mode) in waiting.items()}
        for role, run in runs.items():
            failure = run.result().failure
            if failure is not None:
                raise BenchError(f"workload {number + 1}, {role}: {failure}")
    return Recorded(number, a, b, found)


def measure_sls(
    workloads: int, jobs: int, setting: Callable[[UnequalLoad], Setting], folder: Path, say: Callable[[str], None]
) -> Iterator[ReplayFigures]:
    """Yield the figures of workloads; their recordings stay in the folder.

    Raises:
        BenchError: a run gave no result, or its recording is incomplete.
    """
    for number in range(workloads):
        a, b = pair_of(number)
        say(f"workload {number + 1} of {workloads}: {jobs} jobs under {a}, {b} and {a} again")
        recorded = record(number, a, b, jobs, setting, folder)
        say(f"workload {number + 1} of {workloads}: the recording of {a} is replayed under {b}")
        yield figures_of(recorded, jobs)


def figures_of(recorded: Recorded, jobs: int) -> ReplayFigures:
    """Return what a replay of A's recording under B makes of it, beside what B did, and A again.

    Raises:
        BenchError: a recording has not all jobs.
    """
    recordings = {role: open_recording(segments(recorded.folders[role]), trust_code=False) for role in ROLES}
    for role, each in recordings.items():
        if len(each.whole.compared) != jobs:
            counted = f"{len(each.whole.compared)} of {jobs} jobs came and ended in it"
            raise BenchError(f"{recorded.folders[role]}: {counted}; remove its folder, and run it again")
    (found,) = replayed(recordings["A"], [recorded.b], SEEDS)
    there, real, again = (_there(recordings[role]) for role in ROLES)
    return ReplayFigures(
        workload=recorded.number + 1,
        framework="sls",
        recorded=recorded.a,
        replayed=recorded.b,
        jobs=jobs,
        containers=containers_of(recordings["A"].seen),
        after_s=None if found.switch is None else found.switch.after_s,
        effect=over(real, there),
        own=over(mean_of(found.of_recorded), there),
        error=over(mean_of(found.outcomes), real),
        error_by_chance=None,
        again=over(again, there),
    )


def _there(recording: Recording) -> Error:
    return mean_of([as_recorded(recording.whole)])


def _run(mode: Mode, setting: Setting, folder: Path) -> Run:
    run = simulate(mode, setting, folder, lambda _: None)
    if run.failure is None:
        (folder / _ENDED).touch()
    return run


def _mode(name: str, policy: str, folder: Path, load: UnequalLoad) -> Mode:
    """Return Treadle with a policy, recording; its treadle.yaml is beside the run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    document = yaml.safe_load(find_policy(policy).read_text("utf-8")) | {
        "record": {"folder": str(folder / "recording")}
    }
    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    settings = {
        "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
        "yarn.scheduler.treadle.idle-guard-ms": "0",
        **load.settings,
    }
    masters = {"yarn.scheduler.capacity.maximum-am-resource-percent": "0.6"}
    return treadle_under(name, file, settings, masters)

"""Plays a script under a scheduler, and reports how its jobs went."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from treadle_lab.sls.cluster import Cluster, Scheduling, load_of
from treadle_lab.sls.load import BenchError
from treadle_lab.sls.pace import Pace, pace_of
from treadle_lab.sls.run import Setting, simulate
from treadle_lab.sls.script import Script

__all__ = ["Played", "PlayedJob", "play"]

Progress = Callable[[str], None]

SUCCEEDED: Final = "SUCCEEDED"
UNKNOWN: Final = "UNKNOWN"
"""Of a job of which the simulated application master did not say that it ended."""


@dataclass(frozen=True, slots=True)
class PlayedJob:
    """The outcome of a job."""

    name: str
    status: str
    completion_ms: int = 0
    """From its submission until its application master unregisters."""
    first_wait_ms: int = 0
    """From its submission to its first container beside its master's."""
    containers: int = 0
    misplaced: int = 0
    """Containers on nodes that its requirements do not allow."""
    planned: bool = False
    """Had its stages the priorities of a plan?"""
    submitted_ms: int = 0
    """After the run's first submission."""
    tasks_ms: tuple[tuple[int, int], ...] = ()
    """When a task got each container and when its master heard of its end, after the submission; -1: never."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a run has shown."""

    jobs: tuple[PlayedJob, ...]
    """In the script's order."""
    span_ms: int
    """From the first submission to the last end."""
    shim: dict[str, Any]
    """Treadle's bean at the end; empty under the stock scheduler."""
    pace: Pace | None = None
    """Whether the machine kept up; None: it was not measured."""

    @property
    def placed_natively(self) -> int:
        """Containers that the stock scheduler placed in Treadle's stead."""
        return int(self.shim.get("PlacedNatively", 0))

    def as_json(self) -> dict[str, Any]:
        """Return what a results file says of it."""
        return {
            "span_ms": self.span_ms,
            "placed_natively": self.placed_natively,
            "completion_ms": [job.completion_ms for job in self.jobs],
            "pace": None if self.pace is None else asdict(self.pace),
        }


def play(
    scheduling: Scheduling, script: Script, cluster: Cluster, setting: Setting, seed: int, folder: Path, say: Progress
) -> Played:
    """Run a script to its end with all files in ``folder``.

    Args:
        scheduling: who schedules.
        script: what is played.
        cluster: on what.
        setting: Java, class path, heap, the sidecar's command; its workload is not used.
        seed: of the simulator.
        folder: its files; emptied first, as what an earlier run left would be taken for this one's. Logs stay there.
        say: called now and then with a line about progress.

    Raises:
        BenchError: the run gave no result; the text has what is known of it and where the logs are.
    """
    mode = scheduling.mode(cluster, folder.with_name(f"{folder.name}-treadle.yaml"))
    load = load_of(cluster, script, seed)
    command = setting.sidecar_command if scheduling.sidecar is None else str(scheduling.sidecar)

    shutil.rmtree(folder, ignore_errors=True)

    def show(seen: dict[str, Any]) -> None:
        tenths = 10 * seen.get("attempts_ended", 0) // len(script.jobs)
        say(f"{scheduling.name}: {10 * tenths} % of {len(script.jobs)} jobs ended")

    run = simulate(mode, replace(setting, workload=load, sidecar_command=command), folder, show)
    if run.failure is not None:
        raise BenchError(f"{scheduling.name}: {run.failure}")
    if broken := int(run.measurements.get("attempts_not_finished", 0)):
        raise BenchError(f"{scheduling.name}: {broken} application masters did not end well; logs: {folder}")
    found = replace(played(script, run.measurements), pace=pace_of(script, cluster, run.measurements))
    say(f"{scheduling.name}: {found.pace}")
    return found


def played(script: Script, seen: dict[str, Any]) -> Played:
    """Return what measurements say of a script's jobs."""
    rows = {row[0]: dict(zip(seen["job_columns"], row, strict=True)) for row in seen["jobs"]}
    began_ms = min((row["submitted_ms"] for row in rows.values()), default=0)
    jobs = tuple(_job(job.name, rows.get(job.name), began_ms) for job in script.jobs)
    span_ms = max((row["ended_ms"] for row in rows.values()), default=0) - began_ms
    return Played(jobs, span_ms, seen.get("shim") or {})


def _job(name: str, row: dict[str, Any] | None, began_ms: int) -> PlayedJob:
    if row is None:
        return PlayedJob(name, UNKNOWN)
    return PlayedJob(
        name,
        SUCCEEDED,
        row["ended_ms"] - row["submitted_ms"],
        row["first_container_ms"] - row["submitted_ms"],
        row["containers"],
        row["misplaced"],
        bool(row["planned"]),
        row["submitted_ms"] - began_ms,
        tuple((start_ms, end_ms) for start_ms, end_ms in row["tasks_ms"]),
    )

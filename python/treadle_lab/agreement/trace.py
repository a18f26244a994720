"""How jobs went, on a cluster or in the simulator: when they began and ended, their containers over time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np

from treadle.config.settings import Settings
from treadle.simulator.cluster.state import AppState
from treadle.simulator.simulation import Simulation
from treadle_lab.agreement.workload import JOBS, MASTER_HEARTBEAT_MS, duration_s, scenario, workload

__all__ = ["AuditedApplication", "JobTrace", "Trace", "read_audit_log", "real_trace", "simulated_trace"]

MASTER_NUMBER: Final = 1
_LINE: Final = re.compile(
    r"(?P<time>[\d-]+ [\d:]+,\d+) "
    r".*OPERATION=(?P<what>AM Allocated Container|AM Released Container|Register App Master)\b"
    r".*\bRESULT=SUCCESS\b.*?\bAPPID=(?P<application>application_\d+_\d+)"
    r"(?:.*\bCONTAINERID=container_\w+_(?P<number>\d+))?"
)


@dataclass(frozen=True)
class JobTrace:
    """A job; times in seconds from when the first job began.

    Attributes:
        begin_s: its application master registered.
        end_s: the container of its last task was over.
        all_given_s: it had been given its last container.
        changes: when how many of its tasks' containers more or fewer there were, in order of time.
    """

    begin_s: float
    end_s: float
    all_given_s: float
    changes: tuple[tuple[float, int], ...]

    @property
    def completion_s(self) -> float:
        """From its application master's registration to its last task's end: how long its JVM ends is left out."""
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class Trace:
    """All jobs by name."""

    jobs: Mapping[str, JobTrace]

    @property
    def end_s(self) -> float:
        """When the last job ended."""
        return max(job.end_s for job in self.jobs.values())

    def containers(self, leaf: str, seconds: Sequence[float]) -> list[int]:
        """Return how many containers the tasks of a leaf had at each of these instants."""
        names = [job.name for job in JOBS if job.leaf == leaf and job.name in self.jobs]
        mine = [change for name in names for change in self.jobs[name].changes]
        times, counts, count = [], [0], 0
        for second, change in sorted(mine):
            count += change
            times.append(second)
            counts.append(count)
        return [counts[bisect_right(times, second)] for second in seconds]


@dataclass
class AuditedApplication:
    """What the RM's audit log says of an application; times in seconds since the epoch."""

    registered: float = 0.0
    allocated: dict[int, float] = field(default_factory=dict)
    released: dict[int, float] = field(default_factory=dict)

    @property
    def master_start_s(self) -> float:
        """From the allocation of its AM's container until it registered."""
        return self.registered - self.allocated[MASTER_NUMBER]

    @property
    def overheads_s(self) -> list[float]:
        """Of each task, how much longer it held its container than it slept."""
        return [
            self.released[number] - begun - duration_s(number)
            for number, begun in self.allocated.items()
            if number != MASTER_NUMBER and number in self.released
        ]


def read_audit_log(file: Path) -> dict[str, AuditedApplication]:
    """Return each application in an audit log of the RM, by its id."""
    found: dict[str, AuditedApplication] = {}
    with file.open(errors="replace") as lines:
        for match in filter(None, map(_LINE.match, lines)):
            second = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S,%f").timestamp()
            application = found.setdefault(match["application"], AuditedApplication())
            if match["what"] == "Register App Master":
                application.registered = second
            elif match["number"]:
                times = application.allocated if "Allocated" in match["what"] else application.released
                times[int(match["number"])] = second
    return found


def real_trace(applications: Mapping[str, AuditedApplication]) -> Trace:
    """Return how jobs went on a cluster, from the applications that have each job's name."""
    zero = min(application.registered for application in applications.values())
    jobs = {}
    for name, application in applications.items():
        gained = [(at - zero, 1) for number, at in application.allocated.items() if number != MASTER_NUMBER]
        lost = [(at - zero, -1) for number, at in application.released.items() if number != MASTER_NUMBER]
        changes = tuple(sorted(gained + lost))
        given_s = max(application.allocated.values()) - zero
        jobs[name] = JobTrace(application.registered - zero, changes[-1][0], given_s, changes)
    return Trace(jobs)


def simulated_trace(begins_s: Mapping[str, float], settings: Settings, launch_ms: int, tick_ms: int) -> Trace:
    """Run the jobs in the simulator, each application master registered when it did on the cluster.

    Args:
        begins_s: when each job's AM registers, in seconds. It asks a heartbeat later, as the distributed shell's does.
        settings: the policy.
        launch_ms: from when an AM hears of a container until its task's first instant.
        tick_ms: between two decisions.
    """
    # AMs take no time to start, so that jobs begin where they arrive.
    work = workload({name: round(1000 * second) + MASTER_HEARTBEAT_MS for name, second in begins_s.items()})
    simulation = Simulation(scenario(0, launch_ms, tick_ms), work, settings, seed=1)
    names = [job.name for job in work.jobs]
    had = [0] * len(names)
    began: dict[str, float] = {}
    given: dict[str, float] = {}
    changes: dict[str, list[tuple[float, int]]] = {name: [] for name in names}

    def look() -> None:
        now_s = simulation.rm.now_ms / 1000
        rows = simulation.rm.state.rows
        waiting = np.bincount(rows["app"], rows["waiting"] + rows["count"], minlength=len(names))
        for at, app in enumerate(simulation.rm.state.apps):
            count = int(app["containers"]) - int(app["master"] >= 0)
            if app["state"] >= AppState.RUNNING and names[at] not in began:
                began[names[at]] = now_s - MASTER_HEARTBEAT_MS / 1000
            elif names[at] in began and waiting[at] == 0:
                given.setdefault(names[at], now_s)
            if count != had[at]:
                changes[names[at]].append((now_s, count - had[at]))
                had[at] = count

    run = simulation.run(after_step=look)
    if run.warnings:
        raise AssertionError(f"the policy is not followed as it is written: {'; '.join(run.warnings)}")
    look()
    zero = min(began.values())
    return Trace(
        {
            name: JobTrace(
                began[name] - zero,
                changes[name][-1][0] - zero,
                given[name] - zero,
                tuple((second - zero, change) for second, change in changes[name]),
            )
            for name in names
        }
    )


def launch_ms(overheads_s: Sequence[float], heartbeats_ms: float) -> int:
    """Return how long a task takes to begin: the mean overhead of tasks but what waiting for heartbeats is of it."""
    return max(round(1000 * mean(overheads_s) - heartbeats_ms), 0)

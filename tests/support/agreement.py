"""The same jobs in the simulator and on a mini cluster: workload, traces, runs, and where they do not agree."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from tests.support.distributed_shell import LONG_TIMEOUTS, START_TIMEOUT_S, Sleeper, node_environment, submit

from treadle.config.reader import read_settings
from treadle.config.settings import Settings
from treadle.dag import Dag, Stage
from treadle.policy.catalogue import register_parts
from treadle.simulator.cluster.tables import AppState
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, Workload
from treadle_lab.minicluster import ClusterError, ClusterSettings, MiniCluster
from treadle_lab.minicluster.processes import Say
from treadle_lab.minicluster.site import CS, Entries, write_site

NODES: Final = 2
CPU: Final = 8
"""Of each node, and as many GPU."""
PLENTY_MB: Final = 1 << 20
PLENTY_VCORES: Final = 4096
NODE_HEARTBEAT_MS: Final = 250
MASTER_HEARTBEAT_MS: Final = 1000
"""The distributed shell's."""
MASTER: Final = MappingProxyType({"memory-mb": 256, "vcores": 1})
SHORTEST_S: Final = 4
LONGEST_S: Final = 8
STRIDE: Final = 37
"""Tasks sleep between these, by hundredths of a second: so they do not end in step with heartbeats."""
SECOND_PHASE_S: Final = 18
"""Time from the registration of a1's AM to the submission of the others."""

QUEUES: Final[Mapping[str, tuple[float, Mapping[str, float]]]] = MappingProxyType(
    {"n1": (75.0, {"a": 100.0}), "n2": (25.0, {"b": 50.0, "c": 50.0})}
)
"""Each queue below root with its capacity and those of its leaves, in percent of the parent."""

POLICIES: Final = MappingProxyType(
    {
        "capacity": "policy:\n  share: {kind: capacity}\n",
        "hdrf": "policy:\n  share: {kind: hdrf, weights: equal}\n",
    }
)
"""By name, as treadle.yaml. The guarantees are 3 to 1, and H-DRF shares evenly: so the two lead to other shares."""


@dataclass(frozen=True)
class SleepingJob:
    """A job of `tasks` tasks, each of which needs so much of cpu and gpu."""

    name: str
    leaf: str
    tasks: int
    demand: Mapping[str, int]
    late: bool
    """Comes in the second phase."""


JOBS: Final = (
    SleepingJob("a1", "a", 150, {"cpu": 1}, late=False),
    SleepingJob("b1", "b", 36, {"cpu": 1}, late=True),
    SleepingJob("c1", "c", 64, {"gpu": 1}, late=True),
    SleepingJob("a2", "a", 12, {"cpu": 1}, late=True),
)
LEAVES: Final = ("a", "b", "c")


def duration_s(container: int) -> float:
    """Return how long a task sleeps by its container's number in the application; the AM's is 1, the first task's 2."""
    return SHORTEST_S + STRIDE * container % (100 * (LONGEST_S - SHORTEST_S) + 1) / 100


def command() -> str:
    """Return the shell command of a task: to sleep for `duration_s`."""
    span = 100 * (LONGEST_S - SHORTEST_S) + 1
    return f"sleep $(({100 * SHORTEST_S} + {STRIDE} * 10#${{CONTAINER_ID##*_}} % {span}))e-2"


def queue_entries() -> Entries:
    """Return capacity-scheduler.xml: each queue may use whatever the others leave, one user all of it."""
    entries = {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "1",
        f"{CS}root.queues": ",".join(QUEUES),
    }
    for name, (capacity, leaves) in QUEUES.items():
        entries[f"{CS}root.{name}.queues"] = ",".join(leaves)
        each = {name: capacity, **{f"{name}.{leaf}": part for leaf, part in leaves.items()}}
        for path, percent in each.items():
            entries[f"{CS}root.{path}.capacity"] = f"{percent:g}"
            entries[f"{CS}root.{path}.maximum-capacity"] = "100"
        for leaf in leaves:
            entries[f"{CS}root.{name}.{leaf}.user-limit-factor"] = "100"
    return entries


def scenario(launch_ms: int, tick_ms: int) -> ScenarioModel:
    """Return the same cluster as a scenario of the simulator; its jobs are placeholders for `workload`'s.

    AMs take no time to start, so that jobs begin where they arrive.
    """
    node = {"memory-mb": PLENTY_MB, "vcores": PLENTY_VCORES, "cpu": CPU, "gpu": CPU}
    queues: dict[str, Any] = {
        name: {"capacity": capacity, "children": {leaf: _leaf(part) for leaf, part in leaves.items()}}
        for name, (capacity, leaves) in QUEUES.items()
    }
    return ScenarioModel.model_validate(
        {
            "cluster": {
                "resources": [{"name": name} for name in node],
                "nodes": [{"count": NODES, "resources": node}],
                "heartbeat_ms": NODE_HEARTBEAT_MS,
            },
            "queues": queues,
            "workload": {"jobs": [{"stages": []}]},
            "frameworks": {
                "master": dict(MASTER),
                "master_start_ms": 0,
                "heartbeat_ms": MASTER_HEARTBEAT_MS,
                "launch_ms": launch_ms,
                "tez_reuse": False,
            },
            "decision": {"tick_ms": tick_ms},
        }
    )


def _leaf(capacity: float) -> dict[str, float]:
    return {"capacity": capacity, "maximum_am_resource_percent": 100.0}


def workload(arrivals_ms: Mapping[str, int]) -> Workload:
    """Return the jobs for the simulator, each with when it comes; a task runs in a container of its own."""
    jobs = []
    for job in sorted(JOBS, key=lambda job: arrivals_ms[job.name]):
        lasts_ms = np.array([round(1000 * duration_s(container)) for container in range(2, job.tasks + 2)])
        demand = {"memory-mb": 128.0, "vcores": 1.0, **job.demand}
        stage = Stage(0, job.tasks, int(lasts_ms.mean()), demand, durations_ms=lasts_ms)
        dag = Dag(job.name, (stage,))
        jobs.append(Job(job.name, arrivals_ms[job.name], dag, Framework.TEZ, job.name, queue=job.leaf))
    return Workload(("memory-mb", "vcores", "cpu", "gpu"), tuple(jobs))


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
    work = workload({name: round(1000 * second) + MASTER_HEARTBEAT_MS for name, second in begins_s.items()})
    simulation = Simulation(scenario(launch_ms, tick_ms), work, settings, seed=1)
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


TICK_MS: Final = 10
"""The shim's default."""
JOB_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True)
class Both:
    """A policy's run on the cluster and in the simulator.

    `placed` counts the cluster's containers by who placed them.
    """

    policy: str
    real: Trace
    simulated: Trace
    placed: dict[str, int]


def run_both(policy: str, folder: Path, say: Say) -> Both:
    """Run the jobs under one of `POLICIES` on a cluster in `folder`, then in the simulator.

    Raises:
        ClusterError: the cluster or a job does not start, fails or does not end, or the RM does not answer.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_name(f"{folder.name}-{policy}.yaml")
    file.write_text(POLICIES[policy])
    register_parts()
    settings = read_settings(file)
    with MiniCluster(_cluster_settings(folder, file), folder, say) as cluster:
        applications, placed = _run_jobs(cluster, policy, say)
    real = real_trace(applications)
    overheads = [overhead for application in applications.values() for overhead in application.overheads_s]
    # On average half of each period passes until a heartbeat.
    measured = launch_ms(overheads, (NODE_HEARTBEAT_MS + MASTER_HEARTBEAT_MS) / 2)
    say(f"{policy}: the same in the simulator, tasks begin after {measured} ms")
    begins = {name: job.begin_s for name, job in real.jobs.items()}
    simulated = simulated_trace(begins, settings, measured, TICK_MS)
    return Both(policy, real, simulated, placed)


def _cluster_settings(folder: Path, policy: Path) -> ClusterSettings:
    queues = folder.with_name(f"{folder.name}-queues.xml")
    write_site(queues, queue_entries())
    return ClusterSettings(
        nodes=NODES,
        memory_mb=PLENTY_MB,
        vcores=PLENTY_VCORES,
        resources={"cpu": CPU, "gpu": CPU},
        queues=queues,
        policy=policy,
        heartbeat_ms=NODE_HEARTBEAT_MS,
        overrides={
            "yarn.nodemanager.admin-env": node_environment(str(folder.resolve())),
            "yarn.nodemanager.container-monitor.enabled": "false",
        }
        | LONG_TIMEOUTS,
        start_timeout_s=START_TIMEOUT_S,
    )


def _run_jobs(cluster: MiniCluster, policy: str, say: Say) -> tuple[dict[str, AuditedApplication], dict[str, int]]:
    """Submit all jobs and wait for their ends; return the applications and who placed containers."""
    running: dict[str, Sleeper] = {}
    for late in (False, True):
        coming = {job.name: _submit(cluster, job) for job in JOBS if job.late is late}
        for sleeper in coming.values():
            sleeper.wait_running(cluster)
        running |= coming
        say(f"{policy}: {', '.join(coming)} run")
        if not late:
            time.sleep(SECOND_PHASE_S)
    for name, sleeper in running.items():
        _wait_end(cluster, name, sleeper)
    audited = read_audit_log(cluster.layout.audit_log)
    of_jobs = cluster.rm.placements().values()
    placed = {who: sum(counts.get(who, 0) for counts in of_jobs) for who in ("treadle", "native")}
    return {name: audited[sleeper.application_id] for name, sleeper in running.items()}, placed


def _submit(cluster: MiniCluster, job: SleepingJob) -> Sleeper:
    return submit(cluster, job.leaf, job.name, job.demand, job.tasks, command())


def _wait_end(cluster: MiniCluster, name: str, sleeper: Sleeper) -> None:
    """Wait until a job has ended well."""

    def over() -> bool:
        return int(cluster.rm.application(sleeper.application_id)["finishedTime"]) > 0

    cluster.wait_for(f"end of {name}", over, JOB_TIMEOUT_S, poll_s=0.5)
    application = cluster.rm.application(sleeper.application_id)
    if application["finalStatus"] != "SUCCEEDED":
        raise ClusterError(f"{name} ended as {application['finalStatus']}: {application['diagnostics'].strip()}")


TOLERANCE: Final = 1.0
"""How many containers a leaf's shares may differ by."""
COMPLETION_BOUND: Final = 0.15
"""By what part of a job's completion time on the cluster the simulator's may differ."""
SETTLING_S: Final = LONGEST_S + 4.0
"""After this long every task that ran when a job came has ended, and its container has its new owner."""
GRID_S: Final = 0.1


@dataclass(frozen=True)
class Phase:
    """A stretch of time in which the same jobs want more than they have.

    `real` and `simulated` have the median number of containers of each leaf.
    """

    title: str
    real: dict[str, float]
    simulated: dict[str, float]


def windows(trace: Trace) -> list[tuple[float, float]]:
    """Return when shares are settled: before the late jobs come, and until one of them is given its last container."""
    early = [trace.jobs[job.name] for job in JOBS if not job.late]
    late = [trace.jobs[job.name] for job in JOBS if job.late]
    come, there = min(job.begin_s for job in late), max(job.begin_s for job in late)
    satisfied = min(job.all_given_s for job in trace.jobs.values())
    return [(max(job.begin_s for job in early) + SETTLING_S, come), (there + SETTLING_S, satisfied)]


def phases(both: Both) -> list[Phase]:
    """Return the shares in each settled stretch; the two are each cut at their own events."""
    titles = ("a1 alone", "a1, a2, b1 and c1")
    found = zip(titles, windows(both.real), windows(both.simulated), strict=True)
    return [
        Phase(title, _medians(both.real, *real), _medians(both.simulated, *simulated))
        for title, real, simulated in found
    ]


def _medians(trace: Trace, begin_s: float, end_s: float) -> dict[str, float]:
    steps = max(int((end_s - begin_s) / GRID_S), 1)
    seconds = [begin_s + GRID_S * step for step in range(steps)]
    return {leaf: float(median(trace.containers(leaf, seconds))) for leaf in LEAVES}


def completion_errors(both: Both) -> dict[str, float]:
    """Return for each job by what part the simulator's completion time is longer (or shorter) than the cluster's."""
    real, simulated = both.real.jobs, both.simulated.jobs
    return {name: simulated[name].completion_s / job.completion_s - 1 for name, job in real.items()}


def misses(both: Both) -> list[str]:
    """Say in what the two do not agree."""
    found = [
        f"{both.policy}, {phase.title}: {leaf} has {phase.real[leaf]:g} containers, {phase.simulated[leaf]:g} simulated"
        for phase in phases(both)
        for leaf in LEAVES
        if abs(phase.real[leaf] - phase.simulated[leaf]) > TOLERANCE
    ]
    found += [
        f"{both.policy}: the completion time of {name} is off by {error:+.1%}"
        for name, error in completion_errors(both).items()
        if abs(error) > COMPLETION_BOUND
    ]
    return found

"""The H-DRF paper's tests on a real ResourceManager, under Treadle and under the stock CapacityScheduler."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.admin.install import ready_made
from treadle_lab.harness import distributed_shell as sleepers
from treadle_lab.harness.distributed_shell import Sleeper, queue_of
from treadle_lab.harness.waiting import LONG_TIMEOUTS, START_TIMEOUT_S
from treadle_lab.minicluster import ClusterSettings, MiniCluster, Scheduler
from treadle_lab.minicluster.site import CS, Entries, write_site
from treadle_lab.papers.hdrf.paper_tests import HdrfTest
from treadle_lab.papers.hdrf.queue_tree import queue_tree

__all__ = ["POLICY", "Run", "Sample", "Settings", "StepResult", "run_test"]

POLICY = "hdrf"
PLENTY_MB = 1 << 20
PLENTY_VCORES = 4096
POLL_S = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How a test is run.

    Attributes:
        task_s: mean duration of a sleeping task.
        step_s: how long the shares settle after each step, counted from when the AMs of those who came run.
        window_s: at the end of each step, what the reached shares are the medians of.
    """

    task_s: float = 6.0
    step_s: float = 36.0
    window_s: float = 12.0


@dataclass(frozen=True)
class Sample:
    """The containers of each leaf at a time: those of its tasks that the RM has allocated."""

    second: float
    tasks: dict[str, int]


@dataclass(frozen=True)
class StepResult:
    """The result of a step: `tasks` are medians of the window, `least` and `most` what was seen in it."""

    title: str
    start_s: float
    settling_s: float
    end_s: float
    tasks: dict[str, float]
    least: dict[str, int]
    most: dict[str, int]


@dataclass(frozen=True)
class Run:
    """A test under one scheduler.

    `placed` counts the containers placed by `treadle` and by the stock scheduler (`native`) in its stead, of the
    applications that the RM reports; empty under the stock scheduler, which counts none.
    """

    test: str
    scheduler: str
    samples: list[Sample]
    steps: list[StepResult]
    placed: dict[str, int] = field(default_factory=dict)


def queues(test: HdrfTest) -> Entries:
    """Return capacity-scheduler.xml: siblings by their weights, each may use whatever the others leave."""
    entries = {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "1",
    }
    groups = {group: [queue_of(leaf) for leaf in leaves] for group, leaves in test.groups.items()}
    return entries | queue_tree(groups, test.weights)


def cluster_settings(test: HdrfTest, scheduler: Scheduler, folder: Path) -> ClusterSettings:
    """Return the cluster of a test; its queues are written to a file beside `folder`."""
    file = folder.with_name(f"{folder.name}-queues.xml")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_site(file, queues(test))
    overrides = {
        "yarn.nodemanager.admin-env": sleepers.node_environment(str(folder.resolve())),
        "yarn.nodemanager.container-monitor.enabled": "false",
    }
    if scheduler is Scheduler.TREADLE:
        overrides |= LONG_TIMEOUTS
    return ClusterSettings(
        nodes=test.nodes,
        memory_mb=PLENTY_MB,
        vcores=PLENTY_VCORES,
        resources={"cpu": test.node, "gpu": test.node},
        scheduler=scheduler,
        queues=file,
        policy=ready_made()[POLICY],
        overrides=overrides,
        start_timeout_s=START_TIMEOUT_S,
    )


def run_test(test: HdrfTest, scheduler: Scheduler, settings: Settings, folder: Path, say: Say) -> Run:
    """Start a cluster in `folder`, run a test on it, and stop it whatever happens.

    Raises:
        ClusterError: the cluster or one of its jobs does not start, or the RM does not answer.
    """
    with MiniCluster(cluster_settings(test, scheduler, folder), folder, say) as cluster, cluster.answering():
        return _Experiment(cluster, test, scheduler, settings, say).run()


class _Experiment:
    """A test on a started cluster."""

    def __init__(
        self, cluster: MiniCluster, test: HdrfTest, scheduler: Scheduler, settings: Settings, say: Say
    ) -> None:
        self._cluster = cluster
        self._test = test
        self._scheduler = scheduler
        self._settings = settings
        self._say = say
        self._present: dict[str, Sleeper] = {}
        self._samples: list[Sample] = []
        self._started = time.monotonic()
        self._submitted = 0

    def run(self) -> Run:
        """Go through the steps."""
        steps = [self._step(number) for number in range(len(self._test.steps))]
        placed = self._cluster.rm.placed() if self._scheduler is Scheduler.TREADLE else {}
        return Run(self._test.name, self._scheduler.value, self._samples, steps, placed)

    def _step(self, number: int) -> StepResult:
        step = self._test.steps[number]
        who = f"test {self._test.name}, {self._scheduler.value}, step {number + 1} of {len(self._test.steps)}"
        self._say(f"{who}: {step.title}")
        start_s = self._second()
        for leaf in step.leave:
            self._present.pop(leaf).kill(self._cluster)
        came = [self._submit(leaf) for leaf in step.join]
        for sleeper in came:
            sleeper.wait_running(self._cluster)
            self._present[sleeper.leaf] = sleeper
        settling_s = self._second()
        while self._second() < settling_s + self._settings.step_s:
            self._sample()
            time.sleep(POLL_S)
        end_s = self._second()
        inside = [sample.tasks for sample in self._samples if sample.second >= end_s - self._settings.window_s]
        counts = {leaf: [tasks[leaf] for tasks in inside] for leaf in self._present}
        return StepResult(
            step.title,
            start_s,
            settling_s,
            end_s,
            {leaf: statistics.median(seen) for leaf, seen in counts.items()},
            {leaf: min(seen) for leaf, seen in counts.items()},
            {leaf: max(seen) for leaf, seen in counts.items()},
        )

    def _submit(self, leaf: str) -> Sleeper:
        self._submitted += 1
        return sleepers.start(self._cluster, leaf, self._submitted, self._test.demands[leaf], self._settings.task_s)

    def _second(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def _sample(self) -> None:
        used = {application["id"]: used_resources(application) for application in self._cluster.rm.applications()}
        tasks = {}
        for leaf, sleeper in self._present.items():
            demand = self._test.demands[leaf]
            resource = max(demand, key=lambda name: demand[name])
            tasks[leaf] = used.get(sleeper.application_id, {}).get(resource, 0) // demand[resource]
        self._samples.append(Sample(self._second(), tasks))


def used_resources(application: dict[str, Any]) -> dict[str, int]:
    """Return what an application's containers hold, by resource type, from what the RM's REST page says of it."""
    used: dict[str, int] = {}
    for partition in _listed((application.get("resourceInfo") or {}).get("resourceUsagesByPartition")):
        information = partition.get("used", {}).get("resourceInformations", {}).get("resourceInformation")
        for resource in _listed(information):
            used[resource["name"]] = used.get(resource["name"], 0) + int(resource["value"])
    return used


def _listed(value: Any) -> Iterable[dict[str, Any]]:
    """Return a list that Jersey writes as a single object if it has one entry."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]

"""Tests A to D of section 5.1 on a mini cluster: what they are, how they run, and what they found."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from treadle.fairness import Group, Leaf, Tree
from treadle.shipped import ready_made
from treadle_lab.fairness.algorithms import allocate_fluid
from treadle_lab.harness.jobs import LONG_TIMEOUTS, START_TIMEOUT_S, Sleeper, node_environment, queue_of, start
from treadle_lab.minicluster import ClusterSettings, MiniCluster, Scheduler
from treadle_lab.minicluster.processes import Say
from treadle_lab.minicluster.site import CS, Entries, write_site
from treadle_lab.plots import Line, Panel, panels
from treadle_lab.rows import Results, Table


def queue_tree(groups: Mapping[str, Iterable[str]], weights: Mapping[str, int] = MappingProxyType({})) -> Entries:
    """Return what capacity-scheduler.xml has of queues: each may use whatever the others leave.

    Args:
        groups: the leaves of each group
        weights: of groups that weigh more than 1; leaves weigh 1
    """
    entries = {f"{CS}root.queues": ",".join(groups)}
    _set_capacities(entries, {f"root.{group}": weights.get(group, 1) for group in groups})
    for group, leaves in groups.items():
        below = list(leaves)
        entries[f"{CS}root.{group}.queues"] = ",".join(below)
        _set_capacities(entries, {f"root.{group}.{leaf}": 1 for leaf in below})
        for leaf in below:
            entries[f"{CS}root.{group}.{leaf}.user-limit-factor"] = "100"
    return entries


def _set_capacities(entries: Entries, weights: Mapping[str, int]) -> None:
    """Set the capacities of siblings, which add up to 100 percent."""
    each = {path: round(100 * weight / sum(weights.values()), 2) for path, weight in weights.items()}
    first = next(iter(each))
    each[first] += 100 - sum(each.values())
    for path, capacity in each.items():
        entries[f"{CS}{path}.capacity"] = f"{capacity:g}"
        entries[f"{CS}{path}.maximum-capacity"] = "100"


@dataclass(frozen=True)
class Step:
    """Leaves that come and leaves that go at the same time; then the shares are given time to settle."""

    join: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What happens, in a few words."""
        came = f"{', '.join(self.join)} {'come' if len(self.join) > 1 else 'comes'}" if self.join else ""
        went = f"{', '.join(self.leave)} {'leave' if len(self.leave) > 1 else 'leaves'}" if self.leave else ""
        return ", ".join(part for part in (came, went) if part)


@dataclass(frozen=True)
class HdrfTest:
    """One of the paper's worked examples.

    Attributes:
        name: A, B, C or D.
        about: what the paper shows by it.
        node: CPU and GPU of one node.
        nodes: number of nodes.
        groups: for each group its leaves, each with what one of its tasks needs of CPU and GPU.
        steps: what happens.
        weights: of groups that have another than 1.
    """

    name: str
    about: str
    node: int
    nodes: int
    groups: Mapping[str, Mapping[str, tuple[int, int]]]
    steps: tuple[Step, ...]
    weights: Mapping[str, int] = field(default_factory=dict)

    @property
    def demands(self) -> dict[str, dict[str, int]]:
        """For each leaf what one of its tasks needs, by resource."""
        return {leaf: {"cpu": cpu, "gpu": gpu} for below in self.groups.values() for leaf, (cpu, gpu) in below.items()}

    @property
    def capacity(self) -> int:
        """CPU, and as many GPU, of the whole cluster."""
        return self.node * self.nodes

    @property
    def tree(self) -> Tree:
        """The tree as `treadle share` computes with it."""
        groups = []
        for group, below in self.groups.items():
            leaves = (Leaf(leaf, {"cpu": Fraction(cpu), "gpu": Fraction(gpu)}) for leaf, (cpu, gpu) in below.items())
            groups.append(Group(group, tuple(leaves), Fraction(self.weights.get(group, 1))))
        capacity = Fraction(self.capacity)
        return Tree({"cpu": capacity, "gpu": capacity}, Group("root", tuple(groups)))

    def shares(self, algorithm: str) -> list[dict[str, float]]:
        """After each step the tasks of the leaves that are there, as one of `fairness.ALGORITHMS` has it."""
        present: set[str] = set()
        shares = []
        for step in self.steps:
            present = (present | set(step.join)) - set(step.leave)
            tasks = allocate_fluid(self.tree.without(set(self.demands) - present), algorithm).tasks
            shares.append({leaf: float(count) for leaf, count in tasks.items()})
        return shares


TESTS: Mapping[str, HdrfTest] = MappingProxyType(
    {
        "A": HdrfTest(
            "A",
            "naive H-DRF starves n2.1",
            node=5,
            nodes=2,
            groups={"n1": {"n1.1": (1, 0)}, "n2": {"n2.1": (1, 0), "n2.2": (0, 1)}},
            steps=(
                Step(join=("n1.1",)),
                Step(join=("n2.1", "n2.2")),
                Step(leave=("n2.2",)),
                Step(join=("n2.2",)),
            ),
        ),
        "B": HdrfTest(
            "B",
            "blocked nodes need care",
            node=6,
            nodes=2,
            groups={
                "n1": {"n1.1": (1, 0)},
                "n2": {"n2.1": (1, 0)},
                "n3": {"n3.1": (1, 0), "n3.2": (0, 1)},
                "n4": {"n4.1": (0, 1)},
            },
            steps=(
                Step(join=("n1.1", "n2.1", "n3.1", "n3.2", "n4.1")),
                Step(leave=("n3.2",)),
                Step(join=("n3.2",)),
            ),
        ),
        "C": HdrfTest(
            "C",
            "n1.1 loses when n2.2 leaves",
            node=30,
            nodes=2,
            groups={"n1": {"n1.1": (3, 2)}, "n2": {"n2.1": (1, 1), "n2.2": (1, 3)}},
            steps=(Step(join=("n1.1", "n2.1", "n2.2")), Step(leave=("n2.2",)), Step(join=("n2.2",))),
        ),
        "D": HdrfTest(
            "D",
            "shares follow weights, and who leaves makes room for its siblings' and others' tasks",
            node=10,
            nodes=2,
            groups={"n1": {"n1.1": (1, 0), "n1.2": (0, 1)}, "n2": {"n2.1": (1, 0), "n2.2": (1, 0)}},
            steps=(Step(join=("n1.1", "n1.2", "n2.1", "n2.2")), Step(leave=("n1.1",)), Step(leave=("n2.2",))),
            weights={"n1": 4},
        ),
    }
)
"""By name."""


POLICY = "hdrf"
PLENTY_MB = 1 << 20
PLENTY_VCORES = 4096
POLL_S = 0.5


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
        "yarn.nodemanager.admin-env": node_environment(str(folder.resolve())),
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
        return start(self._cluster, leaf, self._submitted, self._test.demands[leaf], self._settings.task_s)

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


TOLERANCE = 1.0
"""How many containers a leaf may have more or fewer than the paper's share of it."""
SCHEDULERS = {
    "treadle": "Treadle, H-DRF (repaired)",
    "capacity": "stock CapacityScheduler",
}


def off(step: StepResult, expected: dict[str, float]) -> dict[str, float]:
    """Return how far off those leaves are that are not within `TOLERANCE` of what is expected."""
    missed = {leaf: step.tasks[leaf] - tasks for leaf, tasks in expected.items()}
    return {leaf: amount for leaf, amount in missed.items() if abs(amount) > TOLERANCE}


def faults(test: HdrfTest, step: StepResult, expected: dict[str, float]) -> list[str]:
    """Say who starves and what lies idle.

    A leaf starves that has nothing though the paper gives it at least one task. A resource lies idle if more of it is
    unused than in the paper's shares, by more than the largest task needs of it.
    """
    found = [f"{leaf} starves" for leaf, tasks in expected.items() if tasks >= 1 and step.tasks[leaf] == 0]
    for resource in ("cpu", "gpu"):
        needs = {leaf: test.demands[leaf][resource] for leaf in expected}
        idle = sum(need * (expected[leaf] - step.tasks[leaf]) for leaf, need in needs.items())
        if idle > max(needs.values(), default=0):
            found.append(f"{idle:.3g} {resource} idle")
    return found


def missed(run: Run) -> list[str]:
    """Say where Treadle is not within `TOLERANCE` of the paper; what the stock scheduler does is its own."""
    steps = zip(run.steps, TESTS[run.test].shares("hdrf"), strict=True) if run.scheduler == "treadle" else ()
    return [
        f"Treadle is not within one container of the paper: test {run.test}, step {number}: {leaf} has {amount:+g}"
        for number, (step, tasks) in enumerate(steps, 1)
        for leaf, amount in off(step, tasks).items()
    ]


def results_of(runs: Sequence[Run]) -> Results:
    """Return the containers of each leaf at the end of each step of each test, beside exact shares."""
    tables = {f"hdrf-test-{name.lower()}": _table(test, runs) for name, test in TESTS.items() if _of(test, runs)}
    shown = [
        asdict(run) | {"faults": [faults(test, *each) for each in zip(run.steps, test.shares("hdrf"), strict=True)]}
        for test in TESTS.values()
        for run in _of(test, runs)
    ]
    return Results({}, {}, {"shortfalls": [text for run in runs for text in missed(run)], "runs": shown}, tables)


def _of(test: HdrfTest, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.test == test.name]


def _table(test: HdrfTest, runs: Sequence[Run]) -> Table:
    rows, own = [], _of(test, runs)
    for number, (exact, naive) in enumerate(zip(test.shares("hdrf"), test.shares("drf-naive"), strict=True)):
        for place, (leaf, expected) in enumerate(exact.items()):
            title = test.steps[number].title if place == 0 else ""
            reached = (_reached(run.steps[number], leaf) for run in own)
            rows.append((title, leaf, f"{expected:g}", f"{naive[leaf]:g}", *reached))
    heading = ("", "leaf", "H-DRF", "naive DRF", *(SCHEDULERS[run.scheduler] for run in own))
    title = f"Test {test.name}: {test.about}; containers at the end of each step, beside exact shares"
    return Table(title, heading, rows, 2)


def _reached(step: StepResult, leaf: str) -> str:
    least, most = step.least[leaf], step.most[leaf]
    return f"{step.tasks[leaf]:g}" + (f" ({least} to {most})" if least != most else "")


def plot_test(test: HdrfTest, runs: Sequence[Run], target: Path) -> None:
    """Draw what each leaf has over time, a panel a scheduler, and what the paper says that it should have."""
    shown = []
    for run in runs:
        lines = {
            leaf: Line([each.second for each in run.samples], [each.tasks.get(leaf, 0) for each in run.samples])
            for leaf in test.demands
        }
        for leaf in test.demands:
            spans = [
                (at_s, expected[leaf])
                for step, expected in zip(run.steps, test.shares("hdrf"), strict=True)
                if leaf in expected
                for at_s in (step.settling_s, step.end_s)
            ]
            lines[f"{leaf}, the paper's"] = Line(*zip(*spans, strict=True))
        shown.append(Panel(lines, "seconds", "containers of tasks", SCHEDULERS[run.scheduler]))
    panels(shown, target, f"Test {test.name}")

"""Tests A to D of section 5.1 on simulated nodes of a real ResourceManager: definitions, runs, and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import numpy as np

from treadle.shipped import ready_made
from treadle_lab.fairness.algorithms import allocate_fluid
from treadle_lab.fairness.fluid import Group, Leaf, Tree
from treadle_lab.minicluster.site import Entries, queue_entries
from treadle_lab.papers.hdrf.facebook import queue_of
from treadle_lab.rows import Results, Table
from treadle_lab.sls.play import (
    Cluster,
    Draw,
    Played,
    Player,
    Scheduling,
    Script,
    ScriptedJob,
    facts_of,
    map_reduce,
    pace_table,
)


def queue_tree(groups: Mapping[str, Iterable[str]], weights: Mapping[str, int] = MappingProxyType({})) -> Entries:
    """Return what capacity-scheduler.xml has of queues: each may use whatever the others leave.

    Args:
        groups: the leaves of each group
        weights: of groups that weigh more than 1; leaves weigh 1
    """
    capacities = _capacities({group: weights.get(group, 1) for group in groups})
    for group, leaves in groups.items():
        capacities |= _capacities({f"{group}.{leaf}": 1 for leaf in leaves})
    return queue_entries(capacities, 100)


def _capacities(weights: Mapping[str, int]) -> dict[str, str]:
    """Return the capacities of siblings, which add up to 100 percent."""
    each = {path: round(100 * weight / sum(weights.values()), 2) for path, weight in weights.items()}
    first = next(iter(each))
    each[first] += 100 - sum(each.values())
    return {path: f"{capacity:g}" for path, capacity in each.items()}


@dataclass(frozen=True)
class Step:
    """Leaves that come and leaves that go at the same time; then the shares are given time to settle."""

    join: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """A short description."""
        came = f"{', '.join(self.join)} {'come' if len(self.join) > 1 else 'comes'}" if self.join else ""
        went = f"{', '.join(self.leave)} {'leave' if len(self.leave) > 1 else 'leaves'}" if self.leave else ""
        return ", ".join(part for part in (came, went) if part)


@dataclass(frozen=True)
class HdrfTest:
    """One of the paper's worked examples.

    Attributes:
        name: A, B, C or D.
        about: its purpose in the paper.
        node: CPU and GPU of one node.
        nodes: number of nodes.
        groups: for each group its leaves, each with the CPU and GPU of one of its tasks.
        steps: the events.
        weights: of groups with a weight other than 1.
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
        """The tree as `treadle lab share` computes with it."""
        groups = []
        for group, below in self.groups.items():
            leaves = (Leaf(leaf, {"cpu": Fraction(cpu), "gpu": Fraction(gpu)}) for leaf, (cpu, gpu) in below.items())
            groups.append(Group(group, tuple(leaves), Fraction(self.weights.get(group, 1))))
        capacity = Fraction(self.capacity)
        return Tree({"cpu": capacity, "gpu": capacity}, Group("root", tuple(groups)))

    def shares(self, algorithm: str) -> list[dict[str, float]]:
        """Return the tasks of the present leaves after each step, by one of `fairness.ALGORITHMS`."""
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
            steps=(Step(join=("n1.1",)), Step(join=("n2.1", "n2.2")), Step(leave=("n2.2",)), Step(join=("n2.2",))),
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
            steps=(Step(join=("n1.1", "n2.1", "n3.1", "n3.2", "n4.1")), Step(leave=("n3.2",)), Step(join=("n3.2",))),
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


TREADLE: Final = "treadle"
STOCK: Final = "capacity"
SCHEDULERS: Final = {TREADLE: "Treadle, H-DRF (repaired)", STOCK: "stock CapacityScheduler"}
HEARTBEAT_MS: Final = 100
SAMPLE_MS: Final = 50
TASKS: Final = 10_000
"""Number of tasks of each job: more than it can run before it leaves."""
MASTER_MB: Final = 8
PLENTY_MB: Final = 1 << 16
PLENTY_VCORES: Final = 4096


@dataclass(frozen=True)
class Settings:
    """Times of a test, in milliseconds of the testbed."""

    task_ms: int = 600
    """The mean duration of a task; it lies evenly between half and one and a half of it."""
    step_ms: int = 8_000
    """From one step to the next: how long shares settle."""
    window_ms: int = 2_500
    """Length of the window at the end of each step whose medians are the reached shares."""


@dataclass(frozen=True)
class StepResult:
    """The result of a step: `tasks` are medians of the window, `least` and `most` its minimum and maximum."""

    title: str
    tasks: dict[str, float]
    least: dict[str, int]
    most: dict[str, int]


@dataclass(frozen=True)
class Run:
    """A test under one scheduler."""

    test: str
    scheduler: str
    samples: dict[str, list[int]]
    """By leaf, how many of its tasks have a container, every `SAMPLE_MS`."""
    steps: list[StepResult]
    played: Played


def cluster_of(test: HdrfTest) -> Cluster:
    """Return the nodes of a test, and its queues: siblings by their weights, each may use whatever the others leave."""
    groups = {group: [queue_of(leaf) for leaf in leaves] for group, leaves in test.groups.items()}
    return Cluster(
        test.nodes,
        PLENTY_MB,
        PLENTY_VCORES,
        heartbeat_ms=HEARTBEAT_MS,
        least_mb=MASTER_MB,
        masters_share=1.0,
        resources={"cpu": test.node, "gpu": test.node},
        tree=queue_tree(groups, test.weights),
    )


def stays_of(test: HdrfTest) -> list[tuple[str, int, int]]:
    """Return each leaf with the steps at which it comes and leaves; one that stays leaves after the last."""
    found, last = [], len(test.steps)
    for number, step in enumerate(test.steps):
        for leaf in step.join:
            gone = next((at for at in range(number, last) if leaf in test.steps[at].leave), last)
            found.append((leaf, number, gone))
    return found


def script_of(test: HdrfTest, settings: Settings) -> Script:
    """Return a job for each stay of a leaf, whose tasks never run out."""
    chance, jobs = np.random.default_rng(51), []
    for leaf, came, gone in stays_of(test):
        durations_ms = np.rint(settings.task_ms * chance.uniform(0.5, 1.5, TASKS)).astype(int).tolist()
        asked = {name: amount for name, amount in test.demands[leaf].items() if amount} | {"memory-mb": MASTER_MB}
        jobs.append(
            ScriptedJob(
                f"{leaf} {came}",
                settings.step_ms * came,
                map_reduce(durations_ms, asked),
                queue=queue_of(leaf),
                master_mb=MASTER_MB,
                until_ms=settings.step_ms * gone,
            )
        )
    return Script(tuple(jobs))


def scheduling(scheduler: str) -> Scheduling:
    """Return who schedules: the policy hdrf as it ships, or the stock scheduler."""
    return Scheduling(scheduler, ready_made()["hdrf"].read_text("utf-8") if scheduler == TREADLE else None)


def run_test(test: HdrfTest, scheduler: str, settings: Settings, player: Player) -> Run:
    """Play a test under a scheduler, unless that is kept.

    Raises:
        BenchError: the run gave no result.
    """
    named = replace(scheduling(scheduler), name=f"test-{test.name.lower()}-{scheduler}")
    runs = player.draw([named], lambda _: script_of(test, settings), cluster_of(test), 1)
    return run_of(test, scheduler, settings, runs[named.name])


def run_of(test: HdrfTest, scheduler: str, settings: Settings, played: Played) -> Run:
    """Return what a run has shown: how many tasks of each leaf have a container, at the end of each step too."""
    times_ms = np.arange(0, settings.step_ms * len(test.steps), SAMPLE_MS)
    counts = {leaf: np.zeros(len(times_ms), np.int64) for leaf in test.demands}
    for (leaf, _, _), job in zip(stays_of(test), played.jobs, strict=True):
        for start_ms, end_ms in job.tasks_ms:
            # what still runs as its master leaves ends with it
            until_ms = job.submitted_ms + (job.completion_ms if end_ms < 0 else end_ms)
            counts[leaf] += (times_ms >= job.submitted_ms + start_ms) & (times_ms < until_ms)
    steps = []
    for number, step in enumerate(test.steps):
        end_ms = settings.step_ms * (number + 1)
        window = (times_ms >= end_ms - settings.window_ms) & (times_ms < end_ms)
        seen = {leaf: counts[leaf][window] for leaf, came, gone in stays_of(test) if came <= number < gone}
        steps.append(
            StepResult(
                step.title,
                {leaf: float(np.median(each)) for leaf, each in seen.items()},
                {leaf: int(each.min()) for leaf, each in seen.items()},
                {leaf: int(each.max()) for leaf, each in seen.items()},
            )
        )
    return Run(test.name, scheduler, {leaf: each.tolist() for leaf, each in counts.items()}, steps, played)


TOLERANCE = 1.0
"""Maximum deviation of a leaf from the paper's share, in containers."""


def off(step: StepResult, expected: dict[str, float]) -> dict[str, float]:
    """Return the deviations of leaves that are not within `TOLERANCE` of the expected value."""
    missed = {leaf: step.tasks[leaf] - tasks for leaf, tasks in expected.items()}
    return {leaf: amount for leaf, amount in missed.items() if abs(amount) > TOLERANCE}


def missed(run: Run) -> list[str]:
    """Return where Treadle is not within `TOLERANCE` of the paper; the stock scheduler is not checked."""
    steps = zip(run.steps, TESTS[run.test].shares("hdrf"), strict=True) if run.scheduler == TREADLE else ()
    return [
        f"Treadle is not within one container of the paper: test {run.test}, step {number}: {leaf} has {amount:+g}"
        for number, (step, tasks) in enumerate(steps, 1)
        for leaf, amount in off(step, tasks).items()
    ]


def results_of(runs: Sequence[Run]) -> Results:
    """Return the containers of each leaf at the end of each step of each test, with the exact shares."""
    tables = {f"hdrf-test-{name.lower()}": _table(test, runs) for name, test in TESTS.items() if _of(test, runs)}
    draws = [Draw(1, {f"test {run.test}, {run.scheduler}": run.played}) for run in runs]
    shown = [
        {
            "test": run.test,
            "scheduler": run.scheduler,
            "steps": [asdict(step) for step in run.steps],
            "samples": run.samples,
        }
        for test in TESTS.values()
        for run in _of(test, runs)
    ]
    facts = facts_of(draws)
    facts["shortfalls"] += [text for run in runs for text in missed(run)]
    return Results({}, {}, facts | {"runs": shown}, tables | {"testbed-pace": pace_table(draws)})


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
    title = f"Test {test.name}: {test.about}; containers at the end of each step, next to exact shares"
    return Table(title, heading, rows, 2)


def _reached(step: StepResult, leaf: str) -> str:
    least, most = step.least[leaf], step.most[leaf]
    return f"{step.tasks[leaf]:g}" + (f" ({least} to {most})" if least != most else "")

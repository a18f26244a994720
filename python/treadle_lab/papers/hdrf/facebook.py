"""Facebook's job sizes on 50 nodes: H-DRF, naive H-DRF and a capacity share (section 5.2), and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I64
from treadle.config.settings import Settings, default_settings, with_parts
from treadle.dag import Dag, Stage
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.simulate import Run, Scenario, simulate
from treadle.workload.clusters import swim_jobs, swim_stages
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle_lab.harness.runs import KeyedRun
from treadle_lab.rows import Layout, Results, Row

GROUPS: Final = {"n1": ("n1.1", "n1.2"), "n2": ("n2.1", "n2.2", "n2.3"), "n3": ("n3.1",)}
"""Figure 10."""
LEAVES: Final = tuple(leaf for leaves in GROUPS.values() for leaf in leaves)
LARGE_LEAVES: Final = ("n1.1", "n1.2", "n3.1")
"""To which the large jobs are submitted, in turn."""
GPU_LEAF: Final = "n1.2"
"""Its tasks want a GPU and no CPU, those of the others a CPU and no GPU."""

JOBS: Final = 100
LARGE_JOBS: Final = 10
LARGE: Final = 500
"""Large jobs have more tasks."""
TASKS_MAX: Final = 2_000
"""Ours: no larger jobs are drawn, or one job would be most of the work."""
MEAN_S: Final = 20.0
VARIATION: Final = 0.5
"""Ours: tasks last so long, with this coefficient of variation, log-normally."""
ARRIVE_S: Final = 600.0
"""Ours: jobs come evenly at random over so long."""
LARGE_DEMAND_MB: Final = 1536
DEMAND_MB: Final = 1024
MEMORY_DOMINANT: Final = 2 / 3
"""Ours: the part of small jobs whose tasks have 1.5 GB; the paper says "a majority" (section 5.3), of large jobs
nothing."""


@lru_cache(maxsize=2)
def _sizes(sample: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tasks of the sample's small and large jobs, by the rules of `treadle.workload.clusters`."""
    tasks = [sum(stage.tasks for stage in swim_stages(job)) for job in swim_jobs(sample)]
    small = tuple(count for count in tasks if count <= LARGE)
    return small, tuple(count for count in tasks if LARGE < count <= TASKS_MAX)


def queues_of(capacity: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Return figure 10's queues.

    Args:
        capacity: of the groups, in percent; None: their weights are equal
    """
    return {
        group: ({} if capacity is None else {"capacity": capacity[group]})
        | {"children": {queue_of(leaf): {} for leaf in leaves}}
        for group, leaves in GROUPS.items()
    }


def queue_of(leaf: str) -> str:
    """Return the queue of a leaf of the paper."""
    return leaf.replace(".", "-")


def schedule(sample: Path, seed: int) -> Workload:
    """Return the jobs of a seed: bags of tasks, each task in a container of its own.

    Raises:
        WorkloadError: a line of the sample is wrong.
    """
    (small, large), chance = _sizes(sample), np.random.default_rng((seed, 52))
    places = _dealt(chance, small, JOBS - LARGE_JOBS, LEAVES) + _dealt(chance, large, LARGE_JOBS, LARGE_LEAVES)
    arrivals_ms = np.sort(chance.uniform(0, 1000 * ARRIVE_S, JOBS)).astype(np.int64)
    spread = np.log(1.0 + VARIATION**2)
    jobs = []
    for number, place in enumerate(chance.permutation(JOBS)):
        tasks, leaf = places[place]
        memory_mb = DEMAND_MB
        if tasks <= LARGE and chance.random() < MEMORY_DOMINANT:
            memory_mb = LARGE_DEMAND_MB
        demand = {"memory-mb": memory_mb, "gpu" if leaf == GPU_LEAF else "vcores": 1}
        times_s = MEAN_S * chance.lognormal(-spread / 2, np.sqrt(spread), tasks)
        times_ms = np.maximum(1, np.rint(1000 * times_s)).astype(np.int64)
        stage = Stage(0, tasks, int(times_ms.mean()), demand, durations_ms=times_ms)
        name, arrival_ms = f"job{number}", int(arrivals_ms[number] - arrivals_ms[0])
        jobs.append(Job(name, arrival_ms, Dag(name, (stage,)), Framework.MAPREDUCE, queue=queue_of(leaf)))
    return arranged(jobs)


def _dealt(
    chance: np.random.Generator, sizes: tuple[int, ...], count: int, leaves: tuple[str, ...]
) -> list[tuple[int, str]]:
    """Draw sizes; return each with a leaf, the leaves in turn."""
    drawn = chance.choice(sizes, count, replace=False)
    return [(int(size), leaves[at % len(leaves)]) for at, size in enumerate(drawn)]


NODES: Final = 50
NODE: Final = {"memory-mb": 6144, "vcores": 4, "gpu": 1}
HDRF: Final = "hdrf"
SHARES: Final[Mapping[str, Any]] = {
    "naive": ("hdrf", {"static": True}),
    HDRF: ("hdrf", {"as": "paper"}),
    "repaired": "hdrf",
    "capacity": "capacity",
}
"""By scheme. `naive` is the paper's Pareto-efficient capacity scheduler, which it calls exactly naive H-DRF.
`hdrf` is the paper's algorithm, `repaired` the one that a policy gets unless it says otherwise.
`capacity` is the order of the stock scheduler, without the headroom that it keeps back."""
SCHEMES: Final = tuple(SHARES)


@dataclass(frozen=True, slots=True)
class SchemeRun(KeyedRun):
    """A scheme with a seed."""

    sample: Path
    scheme: str
    seed: int

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"{self.scheme}, seed {self.seed}"

    def run(self) -> dict[str, Any]:
        """Return the scheme's figures by leaf.

        Raises:
            UserError: a job did not end.
        """
        jobs = schedule(self.sample, self.seed)
        run = simulate(scenario().with_jobs(jobs), settings_of(self.scheme), self.seed, check=False)
        if not bool((run.jobs["state"] == "done").all()):
            raise UserError(f"{self.title}: jobs are left undone")
        queues = np.array(_queues(run), object)
        response_s = {leaf: float(run.completion_s[queues == queue_of(leaf)].mean()) for leaf in LEAVES}
        end_s = float(run.jobs["end_ms"].max()) / 1000
        tasks = {leaf: value if np.isfinite(value) else None for leaf, value in medians(run).items()}
        return {"median_tasks": tasks, "response_s": response_s, "end_s": end_s}


def scenario() -> Scenario:
    """Return the cluster and figure 10's queues: siblings have equal weights."""
    resources = [{"name": name} for name in NODE]
    return Scenario.of(
        {"cluster": {"resources": resources, "nodes": [{"count": NODES, "resources": NODE}]}, "queues": queues_of()}
    )


def settings_of(scheme: str) -> Settings:
    """Return the engine's settings: they differ in the share; in a leaf jobs come in order."""
    register_parts()
    return with_parts(default_settings(), {"share": SHARES[scheme], "order": "fifo", "fit": "packing"})


def _queues(run: Run) -> list[str]:
    """Return each job's queue, by `queue_of`."""
    return [str(queue).rpartition(".")[2] for queue in run.jobs["queue"]]


def medians(run: Run) -> dict[str, float]:
    """Return how many tasks run at a time in each leaf, by `medians_of`."""
    jobs = JobSpans(_queues(run), run.jobs["arrival_ms"], run.jobs["end_ms"])
    return medians_of(jobs, run.tasks["job"], run.tasks["start_ms"], run.tasks["end_ms"])


@dataclass(frozen=True, slots=True)
class JobSpans:
    """Start, end and queue of jobs."""

    queues: Sequence[str]
    """By `queue_of`."""
    arrival_ms: I64
    end_ms: I64


def medians_of(jobs: JobSpans, job: I64, start_ms: I64, end_ms: I64) -> dict[str, float]:
    """Return the median number of running tasks in each leaf over the relevant time.

    That is the time in which the leaf and all leaves with large jobs have jobs: other leaves always use its unused
    resources.

    Args:
        jobs: all jobs
        job: of each task, its place among them
        start_ms: of each task
        end_ms: of each task
    """
    times_ms = np.unique(np.concatenate([jobs.arrival_ms, jobs.end_ms, start_ms, end_ms]))
    length_ms = np.diff(times_ms)
    queues = np.array(jobs.queues, object)
    own = {leaf: np.asarray(queues == queue_of(leaf)) for leaf in LEAVES}
    has_jobs = {
        leaf: _at_a_time(times_ms, jobs.arrival_ms[which], jobs.end_ms[which]) > 0 for leaf, which in own.items()
    }
    contended = np.logical_and.reduce([has_jobs[leaf] for leaf in LARGE_LEAVES])
    medians = {}
    for leaf, which in own.items():
        tasks = which[job]
        running = _at_a_time(times_ms, start_ms[tasks], end_ms[tasks])
        medians[leaf] = _median(running, np.where(contended & has_jobs[leaf], length_ms, 0))
    return medians


def _at_a_time(times_ms: Any, begin_ms: Any, end_ms: Any) -> Any:
    """Return how many of the spans cover each of the intervals between ``times_ms``."""
    change = np.bincount(np.searchsorted(times_ms, begin_ms), minlength=len(times_ms))
    change = change - np.bincount(np.searchsorted(times_ms, end_ms), minlength=len(times_ms))
    return np.cumsum(change)[:-1]


def _median(values: Any, weights: Any) -> float:
    """Return the median of weighted values; NaN if nothing has weight."""
    if not weights.sum():
        return float("nan")
    order = np.argsort(values, kind="stable")
    reached: F64 = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


PAPER_TASKS: Final[Mapping[str, tuple[int, ...]]] = {"naive": (1, 48, 6, 11, 6, 158), HDRF: (83, 49, 9, 14, 8, 84)}
"""Figure 11a, by leaf."""
PAPER_STOCK: Final = (79, 21, 9, 14, 7, 77)
"""Results of the unchanged capacity scheduler of Hadoop 2.0.2, which leaves GPUs idle; no scheme here does."""
PAPER_GAIN: Final = (413, 3, -99, -22, 77, -72)
"""Figure 11b, H-DRF over naive H-DRF, in percent. 77 has probably lost its sign."""
PAPER_GAIN_STOCK: Final = (33, 254, 6, 16, 31, 10)
"""The same over the unchanged capacity scheduler."""

TITLES: Final = {
    "naive": "naive H-DRF (Pareto CS)",
    HDRF: "H-DRF (as: paper)",
    "repaired": "H-DRF, repaired",
    "capacity": "capacity share",
}
PAPER_NAMES: Final = {"naive": TITLES["naive"], HDRF: "H-DRF", "stock": "capacity scheduler of Hadoop 2.0.2"}
"""The schemes of the paper's rows: its stock scheduler is an old one."""
LAYOUTS: Final = {
    "hdrf-tasks": Layout("Tasks that run at a time: median while leaves with large jobs have jobs", across="x"),
    "hdrf-responses": Layout("Mean response time of jobs over that under H-DRF", across="x"),
}

Found = Mapping[tuple[str, int], dict[str, Any]]
"""The results of `SchemeRun`, by scheme and seed."""


def rows_of(found: Found, titles: Mapping[str, str] = TITLES, beside: str = "") -> dict[str, list[Row]]:
    """Return the rows of each table of `LAYOUTS`, without the paper's.

    Args:
        found: the results of runs, those under H-DRF among them
        titles: of schemes
        beside: a remark on all of them
    """
    rows: dict[str, list[Row]] = {name: [] for name in LAYOUTS}
    for ((scheme, seed), each), leaf in product(found.items(), LEAVES):
        title = titles[scheme] + beside
        tasks = each["median_tasks"][leaf]
        rows["hdrf-tasks"].append(Row("tasks", title, leaf, seed, float("nan") if tasks is None else tasks, "1"))
        if scheme != HDRF:
            took_s, ours_s = each["response_s"][leaf], found[HDRF, seed]["response_s"][leaf]
            rows["hdrf-responses"].append(Row("response", title, leaf, seed, took_s, "1", over=ours_s))
    return rows


def add_papers_rows(rows: dict[str, list[Row]], gains: Mapping[str, tuple[int, ...]]) -> None:
    """Add the paper's values for each leaf; ``gains`` are those of H-DRF, by the scheme that they are over."""
    for name, values in (*PAPER_TASKS.items(), ("stock", PAPER_STOCK)):
        rows["hdrf-tasks"] += _papers_rows("tasks", f"paper, {PAPER_NAMES[name]}", values)
    for name, values in gains.items():
        rows["hdrf-responses"] += _papers_rows("response", f"paper, gain of H-DRF over {PAPER_NAMES[name]} (%)", values)


def _papers_rows(figure: str, series: str, values: tuple[int, ...]) -> list[Row]:
    return [Row(figure, series, leaf, 0, value, "1") for leaf, value in zip(LEAVES, values, strict=True)]


def results_of(found: Found) -> Results:
    """Return figures by scheme and leaf."""
    rows = rows_of(found)
    add_papers_rows(rows, {"naive": PAPER_GAIN})
    return Results(LAYOUTS, rows, {"section": "5.2", **facts_of(found)})


def facts_of(found: Found) -> dict[str, Any]:
    """Return seeds, and what each run has shown."""
    kept = {"failure", "key"}
    runs = [
        {"scheme": scheme, "seed": seed} | {name: value for name, value in each.items() if name not in kept}
        for (scheme, seed), each in found.items()
    ]
    return {"seeds": list(dict.fromkeys(seed for _, seed in found)), "runs": runs}

"""Results of a simulation: a few numbers for a table, and the columns behind them for plots.

The columns are the history of each job, task, node and queue, as tables of numpy: a row each, the same rows under every
policy. Times are milliseconds from the simulation's start; -1 is never. All columns of a table are described where its
type stands; `pandas.DataFrame(table)` takes one as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I64, Records
from treadle.dag import Dag
from treadle.simulator.cluster.tables import AppState, RowKind, TaskState
from treadle.simulator.measure import EngineFigures
from treadle.simulator.simulation import SimulatedRun

JOB: Final = np.dtype(
    [
        ("id", "O"),  # of the workload; unique
        ("name", "O"),
        ("queue", "O"),  # the leaf's path without `root.`
        ("user", "O"),
        ("type", "O"),  # mapreduce, tez or spark
        ("tags", "O"),  # a tuple of texts
        ("priority", "i8"),  # YARN's, of the application
        ("arrival_ms", "i8"),
        ("start_ms", "i8"),  # its first task
        ("end_ms", "i8"),
        ("state", "O"),  # done, failed (a task failed too often), running, waiting (no task has run), ahead
        ("tasks", "i8"),
        ("tasks_done", "i8"),
        ("containers", "i8"),  # number of containers so far
        ("work_ms", "i8"),  # total duration of its tasks, by the workload
        ("ran_ms", "i8"),  # total duration of successful tasks
        ("ideal_ms", "i8"),  # lower bound for any scheduler: its critical path, or its work on the whole cluster alone
    ]
)

TASK: Final = np.dtype(
    [
        ("job", "i8"),  # the place in the table of jobs
        ("stage", "i8"),  # its id in the job's DAG
        ("index", "i8"),  # among the stage's tasks
        ("duration_ms", "i8"),  # by the workload
        ("start_ms", "i8"),  # of its latest attempt
        ("end_ms", "i8"),
        ("node", "i8"),  # of its latest attempt: the place in the table of nodes
        ("failures", "i8"),
        ("state", "O"),  # done, running, early (in a container, its input is missing), waiting, hidden
    ]
)

NODE: Final = np.dtype(
    [
        ("name", "O"),
        ("rack", "O"),
        ("failures", "i8"),
        ("tasks_done", "i8"),  # whose latest attempt was here
        ("ran_ms", "i8"),  # their total duration
    ]
)

QUEUE: Final = np.dtype(
    [
        ("queue", "O"),  # the path without `root.`; `root` is the cluster
        ("leaf", "?"),
        ("begin_ms", "i8"),  # of the window
        ("end_ms", "i8"),
        ("share", "f8"),  # average dominant share of the cluster in the window, as plotted
        ("guaranteed", "f8"),  # guaranteed share of the cluster
    ]
)
"""Plus a column ``used RESOURCE`` for each resource: average usage in the window."""


def job_records(run: SimulatedRun) -> Records:
    """Return the jobs in order of arrival, shape (jobs,), of the type `JOB`."""
    built, state = run.built, run.built.state
    jobs, apps, rows = built.workload.jobs, state.apps, state.rows
    table = np.zeros(len(jobs), JOB)
    table["id"] = [job.id for job in jobs]
    table["name"] = [job.name for job in jobs]
    table["queue"] = [path_of(run, int(queue)) for queue in apps["queue"]]
    table["user"] = [job.user or "user" for job in jobs]
    table["type"] = [job.framework.value for job in jobs]
    for at, job in enumerate(jobs):
        table["tags"][at] = job.tags
    table["priority"] = [job.priority for job in jobs]
    table["arrival_ms"] = apps["arrival_ms"]
    table["start_ms"] = apps["started_ms"]
    table["end_ms"] = apps["finish_ms"]
    table["state"] = _job_states(run)
    table["tasks"] = [job.dag.tasks for job in jobs]
    table["tasks_done"] = _sums(rows["done"], rows["app"], len(jobs))
    table["containers"] = apps["containers_ever"]
    table["work_ms"] = [sum(int(stage.durations().sum()) for stage in job.dag.stages) for job in jobs]
    table["ran_ms"] = _sums(rows["ended_ms"], rows["app"], len(jobs))
    table["ideal_ms"] = np.maximum([path_ms(job.dag) for job in jobs], _whole_cluster_ms(run))
    return table


def task_records(run: SimulatedRun) -> Records:
    """Return all tasks, job by job and stage by stage, shape (tasks,), of the type `TASK`."""
    state = run.built.state
    tasks, rows = state.tasks, state.rows
    row = tasks["row"]
    table = np.zeros(len(tasks), TASK)
    table["job"] = rows["app"][row]
    table["stage"] = _stage_ids(run)[row]
    table["index"] = np.arange(len(tasks)) - rows["first_task"][row]
    table["duration_ms"] = tasks["duration_ms"]
    begun = tasks["node"] >= 0
    table["start_ms"] = np.where(begun, tasks["begin_ms"], -1)
    for name in ("end_ms", "node", "failures"):
        table[name] = tasks[name]
    table["state"] = np.array([each.name.lower() for each in TaskState], object)[tasks["state"]]
    return table


def node_records(run: SimulatedRun) -> Records:
    """Return the nodes, shape (nodes,), of the type `NODE`."""
    built = run.built
    nodes, tasks = built.state.nodes, built.state.tasks
    done = tasks[tasks["state"] == TaskState.DONE]
    table = np.zeros(len(nodes), NODE)
    table["name"] = built.node_names
    table["rack"] = [built.rack_names[rack] for rack in nodes["rack"]]
    table["failures"] = nodes["failures"]
    table["tasks_done"] = np.bincount(done["node"], minlength=len(nodes))
    table["ran_ms"] = _sums(done["end_ms"] - done["begin_ms"], done["node"], len(nodes))
    return table


def queue_records(run: SimulatedRun) -> Records:
    """Return the queues, window by window, shape (windows times queues,), of the type `QUEUE` and what each used."""
    built, windows = run.built, run.measurements.windows
    queues, tree = len(built.tree.paths), built.tree
    used = [(f"used {name}", "f8") for name in built.resources]
    table = np.zeros(len(windows) * queues, np.dtype([*QUEUE.descr, *used]))
    shares = window_shares(run)
    names = [path_of(run, queue) for queue in range(queues)]
    leaf = np.isin(np.arange(queues), tree.leaves)
    for at, window in enumerate(windows):
        part = table[at * queues : (at + 1) * queues]
        part["queue"], part["leaf"] = names, leaf
        part["begin_ms"], part["end_ms"] = window.begin_ms, window.end_ms
        part["share"], part["guaranteed"] = shares[at], tree.shares
        for r, (name, _) in enumerate(used):
            part[name] = window.used[:, r]
    return table


def window_shares(run: SimulatedRun) -> F64:
    """Return the dominant share of the cluster of each queue in each window, shape (windows, queues)."""
    windows, built = run.measurements.windows, run.built
    if not windows:
        return np.zeros((0, len(built.tree.paths)))
    used = np.array([window.used for window in windows])
    shares: F64 = (used / np.maximum(built.total, 1)).max(axis=2)
    return shares


def path_of(run: SimulatedRun, queue: int) -> str:
    """Return a queue's path without `root.`."""
    return run.built.tree.paths[queue].removeprefix("root.")


def path_ms(dag: Dag) -> int:
    """Return the length of a DAG's critical path in ms, by task durations and with unlimited machines."""
    ends: dict[int, I64] = {}
    for stage in dag.stages:
        begin: Any = np.zeros(1, np.int64)
        for parent in stage.parents:
            before = ends[parent]
            begin = np.maximum(begin, before if parent in stage.one_to_one else before.max())
        # A stage without tasks passes on its predecessors' length.
        ends[stage.id] = stage.durations() + begin if stage.tasks else begin.max(keepdims=True)
    return max((int(end.max()) for end in ends.values()), default=0)


def _whole_cluster_ms(run: SimulatedRun) -> I64:
    """Return how long the whole cluster needs for each job's bottleneck resource in ms, shape (jobs,)."""
    state, total = run.built.state, run.built.total
    counts = (state.counted == 1) & (total > 0)
    durations = np.zeros(len(state.rows))
    np.add.at(durations, state.tasks["row"], state.tasks["duration_ms"])
    work = np.zeros((len(state.apps), int(counts.sum())))
    np.add.at(work, state.rows["app"], durations[:, None] * state.capability[:, counts])
    return np.rint((work / total[counts]).max(axis=1, initial=0.0)).astype(np.int64)


def _stage_ids(run: SimulatedRun) -> I64:
    """Return the stage ID of each row, shape (rows,); -1 for other rows."""
    state = run.built.state
    ids = np.full(len(state.rows), -1, np.int64)
    rows = np.flatnonzero(np.isin(state.rows["kind"], (RowKind.TASKS, RowKind.INSIDE)))
    # A job's stages that have tasks are its rows of these kinds, in the same order (`treadle.simulator.build`).
    ids[rows] = [stage.id for job in run.built.workload.jobs for stage in job.dag.stages if stage.tasks]
    return ids


def _job_states(run: SimulatedRun) -> Records:
    apps = run.built.state.apps
    states = np.array(["ahead", "waiting", "waiting", "running", "done"], object)[apps["state"]]  # by `AppState`
    states[(states == "running") & (apps["started_ms"] < 0)] = "waiting"
    states[apps["failed"] == 1] = "failed"
    return states


def _sums(values: Any, places: Any, count: int) -> I64:
    """Return the sums of values by place, exactly."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, places, values.astype(np.int64))
    return sums


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of one run. Times in seconds; completion times are from a job's arrival to its end."""

    policy: str
    seed: int
    jobs: int
    unfinished: int
    failed: int
    completion_mean_s: float
    completion_p50_s: float
    completion_p90_s: float
    completion_p99_s: float
    makespan_s: float
    """From the first arrival to the last end, or to ``duration_limit_s`` if that ends the run."""
    utilisation: dict[str, float]
    """By resource, over that time."""
    jain: float
    """Mean over windows of Jain's index of the queues' usage over their guarantee."""
    share_deviation: float
    """Mean over windows of the fraction of the cluster allocated differently from the ideal shares."""
    tasks: int
    tasks_failed: int
    tasks_killed: int
    tasks_lost: int
    containers: int
    decides: int
    proposals: int
    fates: dict[str, int]
    wall_s: float
    cpu_s: float
    completions_per_s: float
    """Completed tasks over wall time, the engine's included: the speed of the simulator."""
    completions_per_cpu_s: float
    """The same over CPU time of the core used: the speed on a machine without other work."""
    cpu: dict[str, float]
    """CPU time in seconds by component."""
    completion_s: list[float]
    """Completion time of each successful job, in order of arrival."""
    windows: list[dict[str, Any]]
    """Time series, by window."""
    warnings: list[str]
    """Warnings of the engine about deviations of the policy on this cluster."""
    engines: list[EngineFigures] = field(default_factory=list)
    """Figures of each of several engines."""
    ended: str = "done"
    """End of the run: done; limit: ``duration_limit_s``; stalled: jobs waited for unavailable resources."""
    total: dict[str, int] = field(default_factory=dict)
    """Total capacity of all nodes, by resource."""
    job_records: dict[str, list[Any]] = field(default_factory=dict)
    """All jobs, failed and unfinished ones included, by column (`treadle.simulator.results`)."""
    leaf_shares: dict[str, list[float]] = field(default_factory=dict)
    """Dominant share of each leaf in each of ``windows``."""
    parts_s: float = 0.0
    """Wall time of custom parts."""
    parts_slowest_s: float = 0.0
    parts_too_slow: int = 0
    """Cycles in which a live engine would have stopped them."""


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run without figures: a part of its policy failed, so another policy would have continued."""

    policy: str
    seed: int
    failure: str


TIMING: Final = (
    "wall_s",
    "cpu_s",
    "completions_per_s",
    "completions_per_cpu_s",
    "cpu",
    "parts_s",
    "parts_slowest_s",
    "parts_too_slow",
)
"""Fields that differ between two runs of the same simulation."""


def completion_s(run: SimulatedRun) -> F64:
    """Return each successful job's time from arrival to end, in order of arrival."""
    apps = run.built.state.apps
    done = (apps["state"] == AppState.FINISHED) & (apps["failed"] == 0)
    times: F64 = (apps["finish_ms"] - apps["arrival_ms"])[done] / 1000.0
    return times


def summarise(run: SimulatedRun, policy: str, seed: int) -> Summary:
    """Return the numbers of a run."""
    apps = run.built.state.apps
    done = completion_s(run)
    finished: I64 = apps["finish_ms"][apps["state"] == AppState.FINISHED]
    first = int(apps["arrival_ms"].min()) if len(apps) else 0
    last = int(finished.max()) if len(finished) and run.ended != "limit" else run.end_ms
    span_ms = max(last - first, 0)
    windows, shares = run.measurements.windows, window_shares(run)
    return Summary(
        policy=policy,
        seed=seed,
        jobs=len(apps),
        unfinished=run.unfinished,
        failed=int(apps["failed"].sum()),
        completion_mean_s=statistic_of(done),
        completion_p50_s=statistic_of(done, 50),
        completion_p90_s=statistic_of(done, 90),
        completion_p99_s=statistic_of(done, 99),
        makespan_s=span_ms / 1000.0,
        utilisation=_utilisation(run, max(span_ms, 1), last if run.ended == "stalled" else run.end_ms),
        jain=statistic_of(np.array([window.jain for window in windows], np.float64)),  # None counts as NaN
        share_deviation=statistic_of(np.array([window.share_deviation for window in windows], np.float64)),
        tasks=run.counts["tasks_done"],
        tasks_failed=run.counts["tasks_failed"],
        tasks_killed=run.counts["tasks_killed"],
        tasks_lost=run.counts["tasks_lost"],
        containers=run.counts["containers"],
        decides=run.decides,
        proposals=run.proposals,
        fates=run.fates,
        wall_s=run.wall_s,
        cpu_s=run.cpu_s,
        completions_per_s=run.counts["tasks_done"] / max(run.wall_s, 1e-9),
        completions_per_cpu_s=run.counts["tasks_done"] / max(run.cpu_s, 1e-9),
        cpu=vars(run.profile).copy(),
        completion_s=done.tolist(),
        windows=[
            window._asdict() | {"used": dict(zip(run.built.resources, window.used[0].tolist(), strict=True))}
            for window in windows
        ],
        warnings=list(run.warnings),
        engines=list(run.engines),
        ended=run.ended,
        total=dict(zip(run.built.resources, run.built.total.tolist(), strict=True)),
        job_records=columns(job_records(run)),
        leaf_shares={path_of(run, leaf): shares[:, leaf].tolist() for leaf in run.built.tree.leaves},
        parts_s=run.parts.total_s,
        parts_slowest_s=run.parts.slowest_s,
        parts_too_slow=run.parts.too_slow,
    )


def columns(table: Records) -> dict[str, list[Any]]:
    """Return a table of records as JSON columns."""
    names = table.dtype.names or ()
    return {name: [list(each) if isinstance(each, tuple) else each for each in table[name].tolist()] for name in names}


def statistic_of(values: F64, part: int | None = None) -> float:
    """Return a percentile of the finite values, or their mean; NaN without any."""
    known = values[np.isfinite(values)]
    return float(known.mean() if part is None else np.percentile(known, part)) if len(known) else float("nan")


def _utilisation(run: SimulatedRun, span_ms: int, until_ms: int) -> dict[str, float]:
    """Return the utilisation over a time; usage after its end by stalled jobs is excluded."""
    total = run.built.total
    used = sum(
        (
            window.used[0] * max(min(window.end_ms, until_ms) - window.begin_ms, 0)
            for window in run.measurements.windows
        ),
        total * 0.0,
    )
    return {
        name: float(used[at] / (span_ms * float(total[at]))) if total[at] else 0.0
        for at, name in enumerate(run.built.resources)
    }


def as_json(outcomes: Sequence[Summary | FailedRun]) -> dict[str, Any]:
    """Return the runs as a JSON document, with null for NaN and infinity.

    ``runs`` are identical bytes for the same simulation; durations are in ``timing``. Where a part of the policy failed
    ``failure`` has the reason, and there are no figures; otherwise it is null. ``engines`` exists if there were
    several.
    """
    whole = [{"failure": None} | without_nan(asdict(outcome)) for outcome in outcomes]
    for each in whole:
        if not each.get("engines"):
            each.pop("engines", None)
    names = ("policy", "seed", *TIMING)
    return {
        "runs": [{name: value for name, value in each.items() if name not in TIMING} for each in whole],
        "timing": [{name: each[name] for name in names} for each in whole if each["failure"] is None],
    }


def without_nan(value: Any) -> Any:
    """Return a document with null for each NaN or infinite number, which JSON lacks."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Benchmarks of a slow engine next to another one, and of copies of one engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import yaml

from treadle.compiled.array_types import F64
from treadle.simulate.comparison import Interval
from treadle_lab.bench.cluster import Progress, Rounds, machine, run_rounds
from treadle_lab.rows import Table, plain
from treadle_lab.sls.load import QUEUES, BenchError, Mode, Workload, treadle_under
from treadle_lab.sls.run import Run, Setting, simulate

SHORT_QUEUE: Final = "etl"
LONG_QUEUE: Final = "adhoc"
"""Queue of the jobs with long decisions."""

_LARGEST_RATE: Final = 1_000.0


@dataclass(frozen=True)
class PacedLoad(Workload):
    """Jobs with random arrivals at a mean rate per second; the seed determines times and which are of `LONG_QUEUE`."""

    per_s: float = 5.0
    long_per_s: float = 0.4
    """Rate of the jobs of `LONG_QUEUE`, per second."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 * self.long_per_s <= self.per_s <= _LARGEST_RATE:
            least = 2 * self.long_per_s
            raise BenchError(f"--per-s is {self.per_s:g}: it must lie between {least:g} and {_LARGEST_RATE:g}")

    @property
    def settings(self) -> dict[str, str]:
        """Return what lets the simulator start jobs one after another; by itself it starts all at once."""
        return {
            "yarn.sls.am.type.mapreduce": "io.treadle.sls.PacedMaster",
            "treadle.bench.arrivals": str(self.per_s),
            "treadle.bench.arrivals.seed": str(self.seed),
        }

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace."""
        trace = super().trace()
        parts = {SHORT_QUEUE: self.per_s - self.long_per_s, LONG_QUEUE: self.long_per_s}
        of_parts = [each for each in trace["workloads"] if each["queue_name"] in parts]
        for each in of_parts:
            each["workload_weight"] = parts[each["queue_name"]]
        return trace | {"workloads": of_parts}


LEASE_MS: Final = 20_000
"""The lease in all modes: an engine that decides for seconds must keep it, or the CapacityScheduler places."""

PART_TIMEOUT_MS: Final = 60_000
DECISION_MAX_S: Final = 120

_THOUGHT: Final = '''\
"""Thinks about asks for a time that is set; written by treadle bench engines."""

import time

import numpy as np


def think(seconds, cpu):
    if not cpu:
        time.sleep(seconds)
        return
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


class ForQueue:
    """Takes ``seconds`` for each decision while a queue asks for something."""

    def __init__(self, queue, seconds, cpu):
        self.queue, self.seconds, self.cpu = queue, seconds, cpu

    def allows(self, view):
        asks = (view.requests["application"] >= 0) & (view.request_count > 0)
        queues = view.applications["queue"][view.requests["application"][asks]]
        if any(view.queue_paths[at] == self.queue for at in queues.tolist()):
            think(self.seconds, self.cpu)
        return np.ones(len(view.requests), bool)


class ForTasks:
    """Takes up the tasks of one job in a decision, and thinks about it and about each of them."""

    def __init__(self, queues, job_s, task_s):
        self.queues, self.job_s, self.task_s = set(queues), job_s, task_s

    def allows(self, view):
        owner = view.requests["application"]
        asks = np.flatnonzero((owner >= 0) & (view.request_count > 0))
        waiting = view.applications["awaiting_am"]
        for_tasks = [at for at in asks if not waiting[owner[at]] and self.is_mine(view, owner[at])]
        allowed = np.ones(len(owner), bool)
        allowed[for_tasks] = False
        if for_tasks:
            first = min(owner[at] for at in for_tasks)
            mine = [at for at in for_tasks if owner[at] == first]
            time.sleep(self.job_s + self.task_s * sum(int(view.request_count[at]) for at in mine))
            allowed[mine] = True
        return allowed

    def is_mine(self, view, application):
        return view.queue_paths[view.applications["queue"][application]] in self.queues
'''


@dataclass(frozen=True, slots=True)
class Thought:
    """Duration of a decision about jobs of `LONG_QUEUE`."""

    seconds: float
    cpu: bool = False
    """It keeps a processor busy; else it is asleep."""

    def gate(self, file: Path) -> dict[str, Any]:
        """Return the gate that thinks so."""
        parameters = {"queue": f"root.{LONG_QUEUE}", "seconds": self.seconds, "cpu": self.cpu}
        return {"kind": "file", "path": str(file), "class": "ForQueue", "parameters": parameters}


@dataclass(frozen=True, slots=True)
class Tasks:
    """Duration of a decision about one job: a constant, and an amount per task."""

    job_s: float = 0.1
    task_s: float = 0.005

    def gate(self, file: Path, queues: list[str]) -> dict[str, Any]:
        """Return the gate that thinks so."""
        parameters = {"queues": queues, "job_s": self.job_s, "task_s": self.task_s}
        return {"kind": "file", "path": str(file), "class": "ForTasks", "parameters": parameters}


class Rosters:
    """Writes a treadle.yaml for each mode into a folder."""

    def __init__(self, folder: Path, further: Mapping[str, str] = MappingProxyType({})) -> None:
        """Create the modes; ``further`` goes to the yarn-site.xml of every mode."""
        self._folder = folder
        self._further = further
        folder.mkdir(parents=True, exist_ok=True)
        self._thought = folder / "thought.py"
        self._thought.write_text(_THOUGHT, encoding="utf-8")

    def alone(self, name: str) -> Mode:
        """One engine that decides on all jobs as fast as it can."""
        return self._mode(name, {}, 1)

    def beside(self, name: str, thought: Thought) -> Mode:
        """Return a mode with two engines, one of which takes long decisions on the jobs of `LONG_QUEUE`."""
        long = {
            "select": {"queues": [f"root.{LONG_QUEUE}"]},
            "decision_max_s": DECISION_MAX_S,
            "policy": {"gate": thought.gate(self._thought)},
        }
        return self._mode(name, {"engines": {"long": long, "short": {}}}, 2)

    def one(self, name: str, thought: Thought) -> Mode:
        """One engine that thinks for long about some of its jobs."""
        return self._mode(name, {"policy": {"gate": thought.gate(self._thought)}}, 1)

    def copies(self, name: str, copies: int, tasks: Tasks | None, queues: list[str], entry: Mapping[str, Any]) -> Mode:
        """Copies of an engine; with ``tasks`` each thinks about each of its jobs."""
        policy = {"policy": {"gate": tasks.gate(self._thought, queues)}} if tasks else {}
        all_ = {"copies": copies, "decision_max_s": DECISION_MAX_S, **entry, **policy}
        return self._mode(name, {"engines": {"all": all_}}, copies)

    def _mode(self, name: str, document: Mapping[str, Any], engines: int) -> Mode:
        file = self._folder / f"{name}.yaml"
        content = {"limits": {"part_timeout_ms": PART_TIMEOUT_MS}, **document}
        file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        settings = {
            "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
            "yarn.scheduler.treadle.starvation-ms": "0",
            "treadle.bench.engines": str(engines),
            **self._further,
        }
        # so that no job waits for another one's end
        masters = {"yarn.scheduler.capacity.maximum-am-resource-percent": "0.6"}
        return treadle_under(name, file, settings, masters)


CONFLICTS: Final = ("NodeFull", "NodeReserved", "QueueMaximum", "UserLimit", "StaleState")
"""Reasons of rejections that others have caused since the engine looked."""

RESAMPLES: Final = 2_000
WITHIN: Final = (2.5, 97.5)
"""Percentiles between which an interval lies."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times of a run's jobs from a request to the first commit: milliseconds, by the RM's clock."""

    master_ms: F64
    """For the application master."""
    tasks_ms: F64
    """For the first of the tasks."""

    @property
    def both_ms(self) -> F64:
        """All waits."""
        return np.concatenate((self.master_ms, self.tasks_ms))


def rows_of(run: Run) -> list[dict[str, Any]]:
    """Return the waits of a run's applications, by column."""
    columns = run.measurements["wait_columns"]
    return [dict(zip(columns, row, strict=True)) for row in run.measurements["waits"]]


def waits_of(run: Run, warm_ms: float, queue: str = SHORT_QUEUE) -> Waits:
    """Return the waits of the jobs of a queue that came later than so long after the first.

    Raises:
        BenchError: there are none, or one was never served.
    """
    rows = [row for row in rows_of(run) if row["queue"].rpartition(".")[2] == queue]
    began = min((row["master_asked_ms"] for row in rows), default=0.0)
    counted = [row for row in rows if row["master_asked_ms"] >= began + warm_ms]
    if not counted:
        raise BenchError(f"{run.mode.name}: no job of queue {queue} came after the first {warm_ms / 1000:g} s")
    if any(row[name] < 0 for row in counted for name in ("master_wait_ms", "tasks_wait_ms")):
        raise BenchError(f"{run.mode.name}: some job of queue {queue} was never served")
    return Waits(*(np.array([row[name] for row in counted]) for name in ("master_wait_ms", "tasks_wait_ms")))


def quantile(waits: Sequence[Waits], at: float) -> float:
    """Return a quantile of the waits of several runs, pooled."""
    return float(np.quantile(np.concatenate([each.both_ms for each in waits]), at))


def ratio_of(those: Sequence[Waits], over: Sequence[Waits], at: float, seed: int = 1) -> Interval:
    """Return the quotient of a pooled quantile of some runs over that of others.

    The interval is of a bootstrap: pairs of runs are drawn, then jobs of each.

    Args:
        those: a run each round
        over: a run of the same round each
        at: the quantile
        seed: of the draws
    """
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(RESAMPLES):
        pairs = random.integers(len(those), size=len(those))
        quantiles = [
            np.quantile(np.concatenate([random.choice(side[at_].both_ms, len(side[at_].both_ms)) for at_ in pairs]), at)
            for side in (those, over)
        ]
        drawn.append(quantiles[0] / quantiles[1])
    low, high = np.percentile(drawn, WITHIN)
    return Interval(round(quantile(those, at) / quantile(over, at), 3), round(float(low), 3), round(float(high), 3))


@dataclass(frozen=True, slots=True)
class Side:
    """Waiting times of the short jobs of a mode."""

    mode: str
    runs: int
    jobs: int
    p50_ms: float
    p99_ms: float
    masters_p99_ms: float
    tasks_p99_ms: float
    placed_natively: int
    rejected: int


def side_of(name: str, runs: Sequence[Run], waits: Sequence[Waits]) -> Side:
    """Return the figures of a mode's runs."""
    tasks = np.concatenate([each.tasks_ms for each in waits])
    masters = np.concatenate([each.master_ms for each in waits])
    shims = [run.measurements.get("shim") or {} for run in runs]
    quantiles = quantile(waits, 0.5), quantile(waits, 0.99), np.quantile(masters, 0.99), np.quantile(tasks, 0.99)
    shown = [round(float(figure), 2) for figure in quantiles]
    natively, rejected = (sum(int(shim.get(key, 0)) for shim in shims) for key in ("PlacedNatively", "Rejected"))
    return Side(name, len(runs), len(tasks), shown[0], shown[1], shown[2], shown[3], natively, rejected)


def engines_of(run: Run) -> dict[str, dict[str, Any]]:
    """Return what each engine of a run did, by its name; the name of one that was alone is empty."""
    alone = run.measurements.get("shim") or {}
    conflicts = sum(int(alone.get(f"Rejected{reason}", 0)) for reason in CONFLICTS)
    one = {"": {"committed": alone.get("Committed", 0), "rejected": conflicts}}
    engines = {}
    for name, figures in (run.measurements.get("engines") or one).items():
        committed, conflicted = int(figures["committed"]), int(figures["rejected"])
        engines[name] = {
            "committed": committed,
            "conflicts": conflicted,
            "conflict_fraction": round(conflicted / committed, 4) if committed else None,
        }
    return engines


ALONE: Final = "alone"
AGAIN: Final = "alone-again"
ASLEEP: Final = "beside-asleep"
BUSY: Final = "beside-busy"
ONE: Final = "in-one-engine"


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make."""

    load: PacedLoad
    decision_s: float
    rounds: int
    warm_ms: float
    """Short jobs that arrive before this time of a run, milliseconds, do not count."""


def modes_of(folder: Path, plan: Plan) -> dict[str, Mode]:
    """Return the modes in the order of a round; the load is the same for all."""
    rosters = Rosters(folder, plan.load.settings)
    asleep, busy = Thought(plan.decision_s), Thought(plan.decision_s, cpu=True)
    return {
        ALONE: rosters.alone(ALONE),
        ASLEEP: rosters.beside(ASLEEP, asleep),
        AGAIN: rosters.alone(AGAIN),
        BUSY: rosters.beside(BUSY, busy),
        ONE: rosters.one(ONE, asleep),
    }


def run_engines(plan: Plan, setting: Setting, folder: Path, progress: Progress) -> dict[str, Rounds[Run]]:
    """Run all modes, in turn and every other round in the opposite order; `in-one-engine` once, at the end."""
    modes = modes_of(folder / "rosters", plan)
    alone = modes.pop(ONE)

    def run(mode: Mode, own: Path, label: str) -> Run:
        return simulate(mode, setting, own, partial(progress, label))

    turns: list[tuple[list[Mode], int]] = [([*modes.values()], plan.rounds), ([alone], 1)]
    found = [
        each
        for some, rounds in turns
        for each in run_rounds(some, rounds, run, lambda ran: ran, folder, lambda _: None, turning=True)
    ]
    return {each.mode.name: each for each in found}


def failures_of(outcome: Mapping[str, Rounds[Run]]) -> list[str]:
    """Return which runs failed, and why."""
    return [f"{name}, {failure}" for name, each in outcome.items() for failure in each.failures]


def figures(plan: Plan, outcome: Mapping[str, Rounds[Run]]) -> tuple[list[Side], dict[str, Interval]]:
    """Return what each mode showed, and the quotients of the pooled 99th percentiles.

    All runs must have ended: else there are no pairs.

    Raises:
        BenchError: a short job was never served.
    """
    runs = {name: [run for run in each.rounds if run is not None] for name, each in outcome.items()}
    waits = {name: [waits_of(run, plan.warm_ms) for run in own] for name, own in runs.items()}
    sides = [side_of(name, runs[name], own) for name, own in waits.items()]
    ratios = {name: ratio_of(waits[name], waits[ALONE], 0.99) for name in (AGAIN, ASLEEP, BUSY)}
    ratios[ONE] = ratio_of(waits[ONE], waits[ALONE][:1], 0.99)
    return sides, ratios


def sides_table(plan: Plan, sides: Sequence[Side], ratios: Mapping[str, Interval]) -> Table:
    """Return what short jobs waited, a row a mode."""
    rows = [
        (
            side.mode,
            str(side.runs),
            str(side.jobs),
            *(f"{each:,.1f}" for each in (side.p50_ms, side.p99_ms, side.masters_p99_ms, side.tasks_p99_ms)),
            str(side.placed_natively),
            ratios.get(side.mode, ""),
        )
        for side in sides
    ]
    heading = ("mode", "runs", "jobs", "p50 ms", "p99 ms", "AMs p99", "tasks p99", "natively", "p99 / alone (95 %)")
    title = f"Short jobs, from ask to first commit; the slow engine decides for {plan.decision_s:g} s"
    return Table(title, heading, rows)


def report(
    plan: Plan, outcome: Mapping[str, Rounds[Run]], sides: Sequence[Side], ratios: Mapping[str, Interval]
) -> dict[str, Any]:
    """Return everything for the JSON file; no figures if a run failed."""
    if failures := failures_of(outcome):
        return {**_about(plan), "failures": failures}
    engines = {
        name: [engines_of(run) for run in each.rounds if run is not None]
        for name, each in outcome.items()
        if "beside" in name
    }
    modes = {side.mode: asdict(side) for side in sides}
    return {**_about(plan), "modes": modes, "p99_ratios": plain(ratios), "engines": engines}


def _about(plan: Plan) -> dict[str, Any]:
    return {"workload": asdict(plan.load), "decision_s": plan.decision_s, "rounds": plan.rounds, **machine()}


COPIES: Final = (1, 2, 4)
VARIANTS: Final = (("coarse", "incremental"), ("fine", "gang"), ("coarse", "gang"))
"""(conflicts, transactions) measured with the maximum number of copies, in addition to fine and incremental."""
SPAN_GOALS: Final = {2: 1.05, 4: 1.10}
"""By the number of copies, the goal for their span over that of one."""
SERVED_GOAL: Final = 3.0
"""Jobs served in a second by the most copies over those by one, at least, where each decision takes long."""
SPAN: Final = "fast"
THOUGHT: Final = "thinking"


@dataclass(frozen=True, slots=True)
class CopiesPlan:
    """The measurements to make."""

    span: Workload
    """Workload of the span; decisions take their real time."""
    thought: Workload
    """For jobs served a second; each decision is about one job, and takes `tasks`."""
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class Row:
    """A run."""

    name: str
    load: str
    copies: int
    conflicts: str
    """fine or coarse"""
    transactions: str
    """incremental or gang"""
    span_s: float = 0.0
    served_per_s: float = 0.0
    """Jobs over the time from the first ask for tasks to the last commit of a job's first task."""
    conflict_fraction: float | None = None
    placed_natively: int = 0
    engines: dict[str, Any] | None = None
    failure: str | None = None


def plan(nodes: int, quick: bool, seed: int) -> CopiesPlan:
    """Return the measurements for a number of nodes."""
    jobs = nodes // 20 if quick else nodes // 10
    span = Workload(nodes, max(jobs, 4), 100, 5_000, seed)
    thought = Workload(nodes, 60 if quick else 300, 10, 10_000, seed)
    return CopiesPlan(span, thought, Tasks())


def rows_to_run() -> list[Row]:
    """Return the runs in order: each load by copies, then the most copies with other conflicts and transactions."""
    plain = [(load, copies, "fine", "incremental") for load in (SPAN, THOUGHT) for copies in COPIES]
    further = [(THOUGHT, COPIES[-1], *variant) for variant in VARIANTS]
    return [Row("-".join(map(str, each)), *each) for each in plain + further]


def run_copies(plan: CopiesPlan, setting: Setting, folder: Path, progress: Progress) -> list[Row]:
    """Run 1, 2 and 4 copies: with decisions as fast as they are, then with thought about each job."""
    rosters, queues, rows = Rosters(folder / "rosters"), [f"root.{queue}" for queue in QUEUES], []
    for row in rows_to_run():
        tasks, workload = (None, plan.span) if row.load == SPAN else (plan.tasks, plan.thought)
        entry = {"conflicts": row.conflicts, "transactions": row.transactions}
        mode = rosters.copies(row.name, row.copies, tasks, queues, entry)
        rows.append(_run(row, mode, replace(setting, workload=workload), folder / row.name, plan, progress))
    return rows


def _run(row: Row, mode: Mode, setting: Setting, folder: Path, plan: CopiesPlan, progress: Progress) -> Row:
    run = simulate(mode, setting, folder, partial(progress, row.name))
    return replace(row, failure=run.failure) if run.failure is not None else measured(row, run)


def measured(row: Row, run: Run) -> Row:
    """Return the row with what a run has shown."""
    seen, waits = run.measurements, rows_of(run)
    served = [each["tasks_asked_ms"] + each["tasks_wait_ms"] for each in waits if each["tasks_wait_ms"] >= 0]
    asked = [each["tasks_asked_ms"] for each in waits if each["tasks_asked_ms"] >= 0]
    took_s = (max(served) - min(asked)) / 1000 if served else 0.0
    engines = engines_of(run)
    committed, conflicted = (sum(each[key] for each in engines.values()) for key in ("committed", "conflicts"))
    return replace(
        row,
        span_s=round((seen["completions"]["last_ms"] - seen["commits"]["first_ms"]) / 1000, 2),
        served_per_s=round(len(served) / took_s, 2) if took_s > 0 else 0.0,
        conflict_fraction=round(conflicted / committed, 4) if committed else None,
        placed_natively=int(seen["shim"].get("PlacedNatively", 0)),
        engines=engines,
    )


def copies_table(rows: Sequence[Row]) -> Table:
    """Return a table with a row per run, compared with one copy under the same load."""
    one = {row.load: row for row in rows if row.copies == 1}
    heading = ("load", "copies", "conflicts", "transactions", "span s", "of one's", "jobs served /s", "of one's")
    return Table(
        "Copies of one engine",
        (*heading, "conflict fraction", "natively"),
        [
            (
                *(row.load, str(row.copies), row.conflicts, row.transactions),
                *(row.span_s, _over(row.span_s, one.get(row.load, row).span_s)),
                *(row.served_per_s, _over(row.served_per_s, one.get(row.load, row).served_per_s)),
                *(row.conflict_fraction, str(row.placed_natively)),
            )
            for row in rows
        ],
        4,
    )


def _over(value: float, one: float) -> float | None:
    return value / one if one else None


def shortfalls(rows: Sequence[Row]) -> list[str]:
    """Return the targets that the copies miss."""
    found = []
    one = {row.load: row for row in rows if row.copies == 1}
    for row in rows:
        alone = one.get(row.load)
        if alone is None or (row.conflicts, row.transactions) != ("fine", "incremental"):
            continue
        if row.load == SPAN and row.copies in SPAN_GOALS and row.span_s > SPAN_GOALS[row.copies] * alone.span_s:
            ratio, goal = row.span_s / alone.span_s, SPAN_GOALS[row.copies]
            found.append(f"{row.copies} copies: {ratio:.2f} of the span of one; the goal is at most {goal}")
        if row.load == THOUGHT and row.copies == COPIES[-1] and row.served_per_s < SERVED_GOAL * alone.served_per_s:
            ratio = row.served_per_s / alone.served_per_s
            found.append(f"{row.copies} copies: {ratio:.2f} of the jobs served by one; the goal is {SERVED_GOAL:g}")
    return found


def copies_report(plan: CopiesPlan, rows: Sequence[Row]) -> dict[str, Any]:
    """Return everything for the JSON file."""
    loads = {SPAN: asdict(plan.span), THOUGHT: asdict(plan.thought) | {"decision": asdict(plan.tasks)}}
    return {"workloads": loads, **machine(), "runs": [asdict(row) for row in rows], "shortfalls": shortfalls(rows)}

"""Copies of one engine, with real sidecars: do they serve more jobs, and what do their conflicts cost?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from treadle_lab.bench.cluster import Progress, machine
from treadle_lab.rows import Table
from treadle_lab.sls.load import QUEUES, Mode, Workload, treadle_under
from treadle_lab.sls.run import Run, Setting, simulate

LEASE_MS: Final = 20_000
"""The lease in all modes: an engine that decides for seconds must keep it, or the CapacityScheduler places."""

PART_TIMEOUT_MS: Final = 60_000
DECISION_MAX_S: Final = 120

_THOUGHT: Final = '''\
"""Thinks about jobs for a time that is set; written by treadle lab bench engines."""

import time

import numpy as np


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


DECISION: Final = {"job_s": 0.1, "task_s": 0.005}
"""Duration of a decision about one job: a constant, and an amount per task."""


def mode_of(row: Row, queues: list[str], folder: Path) -> Mode:
    """Return copies of an engine, whose treadle.yaml is written; each thinks about each of its jobs under `THOUGHT`."""
    folder.mkdir(parents=True, exist_ok=True)
    thought, file = folder / "thought.py", folder / f"{row.name}.yaml"
    thought.write_text(_THOUGHT, encoding="utf-8")
    parameters: dict[str, Any] = {"queues": queues, **DECISION}
    gate = {"kind": "file", "path": str(thought), "class": "ForTasks", "parameters": parameters}
    policy = {"policy": {"gate": gate}} if row.load == THOUGHT else {}
    entry = {"conflicts": row.conflicts, "transactions": row.transactions, **policy}
    engines = {"all": {"copies": row.copies, "decision_max_s": DECISION_MAX_S, **entry}}
    content = {"limits": {"part_timeout_ms": PART_TIMEOUT_MS}, "engines": engines}
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    settings = {
        "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
        "yarn.scheduler.treadle.starvation-ms": "0",
        "treadle.bench.engines": str(row.copies),
    }
    # so that no job waits for another one's end
    return treadle_under(row.name, file, settings, {"yarn.scheduler.capacity.maximum-am-resource-percent": "0.6"})


CONFLICTS: Final = ("NodeFull", "NodeReserved", "QueueMaximum", "UserLimit", "StaleState")
"""Reasons of rejections that others have caused since the engine looked."""


def rows_of(run: Run) -> list[dict[str, Any]]:
    """Return the waits of a run's applications, by column."""
    columns = run.measurements["wait_columns"]
    return [dict(zip(columns, row, strict=True)) for row in run.measurements["waits"]]


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
    """For jobs served a second; each decision is about one job, and takes `DECISION`."""


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
    placed_by_capacity_scheduler: int = 0
    engines: dict[str, Any] | None = None
    failure: str | None = None


def plan(nodes: int, quick: bool, seed: int) -> CopiesPlan:
    """Return the measurements for a number of nodes."""
    jobs = nodes // 20 if quick else nodes // 10
    span = Workload(nodes, max(jobs, 4), 100, 5_000, seed)
    thought = Workload(nodes, 60 if quick else 300, 10, 10_000, seed)
    return CopiesPlan(span, thought)


def rows_to_run() -> list[Row]:
    """Return the runs in order: each load by copies, then the most copies with other conflicts and transactions."""
    plain = [(load, copies, "fine", "incremental") for load in (SPAN, THOUGHT) for copies in COPIES]
    further = [(THOUGHT, COPIES[-1], *variant) for variant in VARIANTS]
    return [Row("-".join(map(str, each)), *each) for each in plain + further]


def run_copies(plan: CopiesPlan, setting: Setting, folder: Path, progress: Progress) -> list[Row]:
    """Run 1, 2 and 4 copies: with decisions as fast as they are, then with thought about each job."""
    queues, rows = [f"root.{queue}" for queue in QUEUES], []
    for row in rows_to_run():
        load = replace(setting, workload=plan.span if row.load == SPAN else plan.thought)
        run = simulate(mode_of(row, queues, folder / "rosters"), load, folder / row.name, partial(progress, row.name))
        rows.append(replace(row, failure=run.failure) if run.failure is not None else measured(row, run))
    return rows


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
        placed_by_capacity_scheduler=int(seen["shim"].get("PlacedByCapacityScheduler", 0)),
        engines=engines,
    )


def copies_table(rows: Sequence[Row]) -> Table:
    """Return a table with a row per run, compared with one copy under the same load."""
    one = {row.load: row for row in rows if row.copies == 1}
    heading = ("load", "copies", "conflicts", "transactions", "span s", "of one's", "jobs served /s", "of one's")
    return Table(
        "Copies of one engine",
        (*heading, "conflict fraction", "by CapacityScheduler"),
        [
            (
                *(row.load, str(row.copies), row.conflicts, row.transactions),
                *(row.span_s, _over(row.span_s, one.get(row.load, row).span_s)),
                *(row.served_per_s, _over(row.served_per_s, one.get(row.load, row).served_per_s)),
                *(row.conflict_fraction, str(row.placed_by_capacity_scheduler)),
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
            found.append(f"{row.copies} copies: {ratio:.2f} of the span of one; expected: at most {goal}")
        if row.load == THOUGHT and row.copies == COPIES[-1] and row.served_per_s < SERVED_GOAL * alone.served_per_s:
            ratio = row.served_per_s / alone.served_per_s
            found.append(f"{row.copies} copies: {ratio:.2f} of the jobs served by one; expected: {SERVED_GOAL:g}")
    return found


def copies_report(plan: CopiesPlan, rows: Sequence[Row]) -> dict[str, Any]:
    """Return everything for the JSON file."""
    loads = {SPAN: asdict(plan.span), THOUGHT: asdict(plan.thought) | {"decision": DECISION}}
    return {"workloads": loads, **machine(), "runs": [asdict(row) for row in rows], "shortfalls": shortfalls(rows)}

"""Copies of one engine, with real sidecars: do they serve more jobs, and what do their conflicts cost?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import yaml

from treadle_lab.bench.cluster import Progress, machine
from treadle_lab.rows import Table
from treadle_lab.sls.run import QUEUES, Mode, Run, Setting, Workload, simulate, treadle_under

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


SPAN: Final = "fast"
THOUGHT: Final = "thinking"
COPIES: Final = (1, 2, 4)

CONFLICTS: Final = ("NodeFull", "NodeReserved", "QueueMaximum", "UserLimit", "StaleState")
"""Reasons of rejections that others have caused since the engine looked."""


Row = dict[str, Any]
"""A run of some copies under a load, `SPAN` or `THOUGHT`: its figures by name, and why it failed, or None."""


def mode_of(load: str, copies: int, queues: list[str], folder: Path) -> Mode:
    """Return copies of an engine, whose treadle.yaml is written; each thinks about each of its jobs under `THOUGHT`."""
    name = f"{load}-{copies}"
    folder.mkdir(parents=True, exist_ok=True)
    thought, file = folder / "thought.py", folder / f"{name}.yaml"
    thought.write_text(_THOUGHT, encoding="utf-8")
    parameters: dict[str, Any] = {"queues": queues, **DECISION}
    gate = {"kind": "file", "path": str(thought), "class": "ForTasks", "parameters": parameters}
    policy = {"policy": {"gate": gate}} if load == THOUGHT else {}
    engines = {"all": {"copies": copies, "decision_max_s": DECISION_MAX_S, **policy}}
    content = {"limits": {"part_timeout_ms": PART_TIMEOUT_MS}, "engines": engines}
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    settings = {
        "yarn.scheduler.treadle.lease-ms": str(LEASE_MS),
        "yarn.scheduler.treadle.starvation-ms": "0",
        "treadle.bench.engines": str(copies),
    }
    # so that no job waits for another one's end
    return treadle_under(name, file, settings, {"yarn.scheduler.capacity.maximum-am-resource-percent": "0.6"})


def loads(nodes: int, quick: bool, seed: int) -> dict[str, Workload]:
    """Return the loads for a number of nodes."""
    jobs = nodes // 20 if quick else nodes // 10
    span = Workload(nodes, max(jobs, 4), 100, 5_000, seed)
    return {SPAN: span, THOUGHT: Workload(nodes, 60 if quick else 300, 10, 10_000, seed)}


def run_copies(workloads: Mapping[str, Workload], setting: Setting, folder: Path, progress: Progress) -> list[Row]:
    """Run 1, 2 and 4 copies under each load."""
    queues, rows = [f"root.{queue}" for queue in QUEUES], []
    for load, copies in product(workloads, COPIES):
        mode = mode_of(load, copies, queues, folder / "rosters")
        loaded = replace(setting, workload=workloads[load])
        run = simulate(mode, loaded, folder / mode.name, partial(progress, mode.name))
        figures = figures_of(run) if run.failure is None else {}
        rows.append({"load": load, "copies": copies, **figures, "failure": run.failure})
    return rows


def figures_of(run: Run) -> dict[str, Any]:
    """Return the figures of a run that has not failed.

    Jobs are served per second of the time from the first ask for tasks to the last commit of a job's first task.
    """
    seen = run.measurements
    waits = [dict(zip(seen["wait_columns"], each, strict=True)) for each in seen["waits"]]
    served = [each["tasks_asked_ms"] + each["tasks_wait_ms"] for each in waits if each["tasks_wait_ms"] >= 0]
    asked = [each["tasks_asked_ms"] for each in waits if each["tasks_asked_ms"] >= 0]
    took_s = (max(served) - min(asked)) / 1000 if served else 0.0
    return {
        "span_s": round((seen["completions"]["last_ms"] - seen["commits"]["first_ms"]) / 1000, 2),
        "served_per_s": round(len(served) / took_s, 2) if took_s > 0 else 0.0,
        "conflict_fraction": conflict_fraction(seen),
        "placed_by_capacity_scheduler": int(seen["shim"].get("PlacedByCapacityScheduler", 0)),
    }


def conflict_fraction(seen: Mapping[str, Any]) -> float | None:
    """Return the conflicts of all engines over their commits; None without any commit."""
    shim = seen["shim"]
    rejected = sum(int(shim.get(f"Rejected{reason}", 0)) for reason in CONFLICTS)
    engines = seen.get("engines") or {"": {"committed": shim.get("Committed", 0), "rejected": rejected}}
    committed, conflicts = (sum(int(each[key]) for each in engines.values()) for key in ("committed", "rejected"))
    return round(conflicts / committed, 4) if committed else None


def copies_table(rows: Sequence[Row]) -> Table:
    """Return a table with a row per run that has not failed, compared with one copy under the same load."""
    one = {row["load"]: row for row in rows if row["copies"] == 1}
    shown = []
    for row in (row for row in rows if row["failure"] is None):
        span, served = (_over(row, one.get(row["load"], row), figure) for figure in ("span_s", "served_per_s"))
        first = row["load"], str(row["copies"]), row["span_s"], span, row["served_per_s"], served
        shown.append((*first, row["conflict_fraction"], str(row["placed_by_capacity_scheduler"])))
    heading = ("load", "copies", "span s", "of one's", "jobs served /s", "of one's")
    return Table("Copies of one engine", (*heading, "conflict fraction", "by CapacityScheduler"), shown, 2)


def _over(row: Row, one: Row, figure: str) -> float | None:
    """Return what a figure is of one copy's, if that has it."""
    return float(row[figure]) / float(one[figure]) if one.get(figure) else None


def copies_report(workloads: Mapping[str, Workload], rows: Sequence[Row]) -> dict[str, Any]:
    """Return everything for the JSON file."""
    shown = {load: workload.as_json() for load, workload in workloads.items()}
    return {"workloads": shown, "decision": DECISION, **machine(), "runs": list(rows)}

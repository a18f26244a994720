"""Copies of one engine on a simulated cluster: what they cost, and what they gain where each decision takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from treadle_lab.bench.cluster import machine
from treadle_lab.bench.engines import Rosters, Tasks, engines_of, rows_of
from treadle_lab.sls.load import QUEUES, Mode, Workload
from treadle_lab.sls.run import Run, Setting, simulate

COPIES: Final = (1, 2, 4)
VARIANTS: Final = (("coarse", "incremental"), ("fine", "gang"), ("coarse", "gang"))
"""Conflicts and transactions that the most copies are measured with, beside fine and incremental."""
SPAN_GOALS: Final = {2: 1.05, 4: 1.10}
"""By the number of copies, the goal for their span over that of one."""
SERVED_GOAL: Final = 3.0
"""Jobs served in a second by the most copies over those by one, at least, where each decision takes long."""
SPAN: Final = "fast"
THOUGHT: Final = "thinking"

Progress = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    span: Workload
    """For the span; decisions take what they take."""
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


def plan(nodes: int, quick: bool, seed: int) -> Plan:
    """Return what is measured on this many nodes."""
    jobs = nodes // 20 if quick else nodes // 10
    span = Workload(nodes, max(jobs, 4), 100, 5_000, seed)
    thought = Workload(nodes, 60 if quick else 300, 10, 10_000, seed)
    return Plan(span, thought, Tasks())


def rows_to_run() -> list[Row]:
    """Return what is run, in order: each load by copies, then the most copies with other conflicts and transactions."""
    plain = [(load, copies, "fine", "incremental") for load in (SPAN, THOUGHT) for copies in COPIES]
    further = [(THOUGHT, COPIES[-1], *variant) for variant in VARIANTS]
    return [Row("-".join(map(str, each)), *each) for each in plain + further]


def run_copies(plan: Plan, setting: Setting, folder: Path, progress: Progress) -> list[Row]:
    """Run 1, 2 and 4 copies: with decisions as fast as they are, then with thought about each job."""
    rosters, queues, found = Rosters(folder / "rosters"), [f"root.{queue}" for queue in QUEUES], []
    for row in rows_to_run():
        tasks, workload = (None, plan.span) if row.load == SPAN else (plan.tasks, plan.thought)
        entry = {"conflicts": row.conflicts, "transactions": row.transactions}
        mode = rosters.copies(row.name, row.copies, tasks, queues, entry)
        found.append(_run(row, mode, replace(setting, workload=workload), folder / row.name, plan, progress))
    return found


def _run(row: Row, mode: Mode, setting: Setting, folder: Path, plan: Plan, progress: Progress) -> Row:
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


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    """Return what a table shows of a row."""
    one = next((each for each in rows if (each.load, each.copies) == (row.load, 1)), None)
    spans = f"{row.span_s / one.span_s:.2f}" if one and one.span_s else "-"
    served = f"{row.served_per_s / one.served_per_s:.2f}" if one and one.served_per_s else "-"
    fraction = "-" if row.conflict_fraction is None else f"{row.conflict_fraction:.3f}"
    shown = (f"{row.span_s:.1f}", spans, f"{row.served_per_s:.1f}", served)
    return [row.load, str(row.copies), row.conflicts, row.transactions, *shown, fraction, str(row.placed_natively)]


def shortfalls(rows: Sequence[Row]) -> list[str]:
    """Say which goals the copies miss."""
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


def report(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """Return everything for the JSON file."""
    loads = {SPAN: asdict(plan.span), THOUGHT: asdict(plan.thought) | {"decision": asdict(plan.tasks)}}
    return {"workloads": loads, **machine(), "runs": [asdict(row) for row in rows], "shortfalls": shortfalls(rows)}

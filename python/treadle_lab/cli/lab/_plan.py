"""The implementation of `treadle lab plan`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from treadle.cli._console import OutputPaths, counted_progress
from treadle.cli._options import writing
from treadle.errors import printable
from treadle.planner.graphene import Budget, Search
from treadle.tables import empty_table
from treadle_lab import planning
from treadle_lab.dags import Instance, read_instances
from treadle_lab.planning import (
    NAMES,
    MeasuredPlan,
    PaperSearch,
    PlannedSearch,
    Until,
    baseline,
    graphene_plan,
    warm_up,
)

FIELDS = ("name", "algorithm", "makespan", "executed_makespan", "lower_bound", "seconds")


@dataclass(frozen=True)
class Run:
    """The options of a run."""

    budget_ms: int
    budget_schedules: int | None
    seed: int

    def budget(self) -> Budget:
        """Return a budget that starts now."""
        return Until(self.budget_ms).allows if self.budget_schedules is None else self.budget_schedules


def plan(
    files: list[Path],
    psplib_files: bool,
    algorithms: tuple[str, ...],
    machines: int | None,
    run: Run,
    places: OutputPaths,
) -> None:
    """Plan DAGs, and print a row for each and each algorithm."""
    instances = [instance for file in files for instance in _read(file, psplib_files, machines)]
    places.check()
    warm_up()
    results = list(_results(instances, algorithms, run, places.plot))
    places.publish(results, partial(_show, results))


def _show(results: list[dict[str, Any]], console: Console) -> None:
    table = empty_table("", FIELDS[:2], FIELDS[2:])
    for result in results:
        table.add_row(*(printable(str(value), "?") for value in result.values()))
    console.print(table)


def _read(file: Path, psplib_files: bool, machines: int | None) -> Iterator[Instance]:
    return planning.read_instances(file) if psplib_files else read_instances(file, machines)


def _results(
    instances: list[Instance], algorithms: tuple[str, ...], run: Run, plot: Path | None
) -> Iterator[dict[str, Any]]:
    with counted_progress() as progress:
        bar = progress.add_task("planning", total=len(instances) * len(algorithms))
        for number, instance in enumerate(instances, 1):
            for algorithm in algorithms:
                started = time.perf_counter()
                result = _plan(instance, algorithm, run)
                seconds = time.perf_counter() - started
                values = (instance.dag.name, algorithm, result.makespan, result.executed_makespan, result.bounds.best)
                progress.advance(bar)
                if plot is not None:
                    _draw(result, algorithm, plot, number)
                yield dict(zip(FIELDS, (*values, round(seconds, 6)), strict=True))


def _plan(instance: Instance, algorithm: str, run: Run) -> MeasuredPlan:
    where = (instance.dag, instance.capacity, instance.machines)
    if algorithm == "cpsat":
        return planning.solve(*where, run.budget_ms)
    if algorithm in NAMES:
        return baseline(algorithm, *where, in_space=instance.in_space, seed=run.seed)
    if algorithm == "graphene-paper":
        return graphene_plan(*where, run.budget(), kind=PaperSearch)
    kind = PlannedSearch if instance.in_space else Search
    return graphene_plan(*where, run.budget(), kind=kind, seed=run.seed)


def _draw(plan: MeasuredPlan, algorithm: str, folder: Path, number: int) -> None:
    name = re.sub(r"[^\w.-]", "_", plan.dag.name)[:80]
    target = folder / f"{number}-{name}-{algorithm}.png"
    title = f"{printable(plan.dag.name, '?')}: longest path bold, troublesome stages of {algorithm} red"
    with writing("--plot", target, "folder"):
        planning.draw_dag(plan.dag, plan.troublesome, title, target)

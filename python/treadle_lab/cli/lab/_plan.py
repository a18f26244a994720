"""The implementation of `treadle lab plan`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from treadle.cli._console import counted_progress
from treadle.cli._options import check_results, plot_folder, write_json, writing
from treadle.errors import printable
from treadle.planner.graphene import Budget, Objective, Options, Schedules, warm_up
from treadle.planner.graphene import plan as plan_graphene
from treadle.planner.plan import Plan
from treadle_lab import planning
from treadle_lab.dags import Instance, TimeUnit, read_instances
from treadle_lab.planning import NAMES, Until, baseline

FIELDS = ("name", "algorithm", "makespan", "executed_makespan", "lower_bound", "seconds")


@dataclass(frozen=True)
class Run:
    """The options of a run."""

    budget_ms: int
    budget_schedules: int | None
    seed: int
    plot: Path | None

    def budget(self) -> Budget:
        """Return a budget that starts now."""
        return Until(self.budget_ms) if self.budget_schedules is None else Schedules(self.budget_schedules)


def plan(
    files: list[Path],
    psplib_files: bool,
    algorithms: tuple[str, ...],
    machines: int | None,
    run: Run,
    out: Path | None,
) -> None:
    """Plan DAGs, print a line for each and each algorithm, and write the results if a file is given."""
    instances = [instance for file in files for instance in _read(file, psplib_files, machines)]
    check_results(out, None)
    if run.plot is not None:
        plot_folder(run.plot)
    warm_up()
    results = list(_results(instances, algorithms, run))
    if out is not None:
        write_json(out, results)


def _read(file: Path, psplib_files: bool, machines: int | None) -> Iterator[Instance]:
    return planning.read_instances(file) if psplib_files else read_instances(file, machines)


def _results(instances: list[Instance], algorithms: tuple[str, ...], run: Run) -> Iterator[dict[str, Any]]:
    """Plan and print; a line comes as soon as it is known."""
    width = max((len(_shown(instance)) for instance in instances), default=4)
    typer.echo(
        f"{'name':{width}} {'algorithm':14} {'makespan':>12} {'executed':>12} {'lower_bound':>12} {'seconds':>8}"
    )
    with counted_progress() as progress:
        bar = progress.add_task("planning", total=len(instances) * len(algorithms))
        for number, instance in enumerate(instances, 1):
            for algorithm in algorithms:
                started = time.perf_counter()
                result = _plan(instance, algorithm, run)
                seconds = time.perf_counter() - started
                values = (instance.dag.name, algorithm, result.makespan, result.executed_makespan, result.bounds.best)
                progress.advance(bar)
                line = "{:{width}} {:14} {:12} {:12} {:12}".format(_shown(instance), *values[1:], width=width)
                progress.console.file.flush()
                typer.echo(f"{line} {seconds:8.3f}")
                if run.plot is not None:
                    _draw(result, run.plot, number)
                yield dict(zip(FIELDS, (*values, round(seconds, 6)), strict=True))


def _shown(instance: Instance) -> str:
    """Return an instance's name as it fits into a line: jobs may have names of several."""
    return printable(instance.dag.name, "?")


def _plan(instance: Instance, algorithm: str, run: Run) -> Plan:
    where = (instance.dag, instance.capacity, instance.machines)
    objective = Objective.PLANNED if instance.unit is TimeUnit.PERIOD else Objective.EXECUTED
    if algorithm == "cpsat":
        return planning.solve(*where, run.budget_ms)
    if algorithm in NAMES:
        return baseline(algorithm, *where, objective=objective, seed=run.seed)
    options = Options(paper=True) if algorithm == "graphene-paper" else Options(seed=run.seed)
    return plan_graphene(*where, run.budget(), objective=objective, options=options)


def _draw(plan: Plan, folder: Path, number: int) -> None:
    name = re.sub(r"[^\w.-]", "_", plan.dag.name)[:80]
    target = folder / f"{number}-{name}-{plan.algorithm}.png"
    title = f"{printable(plan.dag.name, '?')}: longest path bold, troublesome stages of {plan.algorithm} red"
    with writing("--plot", target, "folder"):
        planning.draw_dag(plan.dag, plan.troublesome, title, target)

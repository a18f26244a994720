"""`treadle lab plan`: plan the order of a DAG's tasks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from treadle.cli._console import OutputPaths, counted_progress
from treadle.cli._options import Output, OutputOption, ResultsOption, writing
from treadle.dag import MACHINES_MAX
from treadle.errors import UserError, printable
from treadle.tables import empty_table
from treadle_lab.dags import Instance, read_instances

if TYPE_CHECKING:
    from treadle_lab.planning import MeasuredPlan

app = typer.Typer()

ALGORITHMS = ("graphene", "graphene-paper", "bfs", "cp", "random", "tetris", "cg", "cpsat")
BUDGET_MS = 1000
FIELDS = ("name", "algorithm", "makespan", "executed_makespan", "lower_bound", "seconds")


class Format(StrEnum):
    """The format of the files."""

    DAG = "dag"
    PSPLIB = "psplib"


@app.command()
def plan(
    files: Annotated[list[Path], typer.Argument(help="DAGs or projects, one JSON object a line: see docs/graphene.md")],
    file_format: Annotated[Format, typer.Option("--format", help="The format of the files.")] = Format.DAG,
    algorithm: Annotated[
        str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}; all: all of them but cpsat.")
    ] = "graphene",
    machines: Annotated[
        int | None, typer.Option(min=1, max=MACHINES_MAX, help="Machines, instead of the file's number.")
    ] = None,
    budget_ms: Annotated[int, typer.Option(min=1, help="Time for each plan.")] = BUDGET_MS,
    budget_schedules: Annotated[
        int | None, typer.Option(min=1, help="Candidate schedules for each plan instead: the same on any machine.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the search, and of random.")] = 0,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    plot: Annotated[
        Path | None, typer.Option(help="A folder for a drawing of each DAG with the plan's troublesome stages.")
    ] = None,
) -> None:
    """Plan DAGs: a row for each and each algorithm, times in ms for `dag`, in periods for `psplib`."""
    if algorithm != "all" and algorithm not in ALGORITHMS:
        raise UserError(f"--algorithm: {algorithm!r} is none; choose one of {', '.join(ALGORITHMS)} or all")
    if machines is not None and file_format is Format.PSPLIB:
        raise UserError("--machines: psplib instances have one pool; leave it out")
    chosen = ALGORITHMS[:-1] if algorithm == "all" else (algorithm,)
    from treadle_lab import planning  # only here: it imports numba

    read: Callable[[Path], Iterator[Instance]] = partial(read_instances, machines=machines)
    if file_format is Format.PSPLIB:
        read = planning.read_instances
    instances = [instance for file in files for instance in read(file)]
    places = OutputPaths(output=output, out=out, plot=plot).check()
    planning.warm_up()
    results = list(_results(instances, chosen, partial(_plan, budget_ms, budget_schedules, seed), plot))
    places.publish(results, partial(_show, results))


def _show(results: list[dict[str, Any]], console: Console) -> None:
    table = empty_table("", FIELDS[:2], FIELDS[2:])
    for result in results:
        table.add_row(*(printable(str(value), "?") for value in result.values()))
    console.print(table)


def _results(
    instances: list[Instance],
    algorithms: tuple[str, ...],
    call: Callable[[Instance, str], MeasuredPlan],
    plot: Path | None,
) -> Iterator[dict[str, Any]]:
    with counted_progress() as progress:
        bar = progress.add_task("planning", total=len(instances) * len(algorithms))
        for number, instance in enumerate(instances, 1):
            for algorithm in algorithms:
                started = time.perf_counter()
                result = call(instance, algorithm)
                seconds = time.perf_counter() - started
                values = (instance.dag.name, algorithm, result.makespan, result.executed_makespan, result.bounds.best)
                progress.advance(bar)
                if plot is not None:
                    _draw(result, algorithm, plot, number)
                yield dict(zip(FIELDS, (*values, round(seconds, 6)), strict=True))


def _plan(budget_ms: int, budget_schedules: int | None, seed: int, instance: Instance, algorithm: str) -> MeasuredPlan:
    from treadle.planner.graphene import Budget, Search
    from treadle_lab import planning

    where = (instance.dag, instance.capacity, instance.machines)
    if algorithm == "cpsat":
        return planning.solve(*where, budget_ms)
    if algorithm in planning.NAMES:
        return planning.baseline(algorithm, *where, in_space=instance.in_space, seed=seed)
    budget: Budget = planning.Until(budget_ms).allows if budget_schedules is None else budget_schedules
    if algorithm == "graphene-paper":
        return planning.graphene_plan(*where, budget, kind=planning.PaperSearch)
    kind = planning.PlannedSearch if instance.in_space else Search
    return planning.graphene_plan(*where, budget, kind=kind, seed=seed)


def _draw(plan: MeasuredPlan, algorithm: str, folder: Path, number: int) -> None:
    from treadle_lab.planning import draw_dag

    name = re.sub(r"[^\w.-]", "_", plan.dag.name)[:80]
    target = folder / f"{number}-{name}-{algorithm}.png"
    title = f"{printable(plan.dag.name, '?')}: longest path bold, troublesome stages of {algorithm} red"
    with writing("--plot", target, "folder"):
        draw_dag(plan.dag, plan.troublesome, title, target)

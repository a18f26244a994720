"""`treadle lab share`: compute shares by H-DRF and its baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables
from treadle.cli._options import Output, OutputOption, print_json
from treadle.errors import UserError, counted, percent
from treadle.tables import empty_table
from treadle_lab.fairness.algorithms import ALGORITHMS
from treadle_lab.fairness.steps import Event, Problem, Step, compute_steps, read_problem

app = typer.Typer()


@app.command()
def share(
    tree: Annotated[Path, typer.Argument(help="A cluster and a tree, as YAML: see docs/queue-shares.md.")],
    algorithm: Annotated[str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.")] = "hdrf",
    output: OutputOption = Output.TABLE,
) -> None:
    """Compute who gets how much of a cluster, at the start and after each event."""
    if algorithm not in ALGORITHMS:
        raise UserError(f"--algorithm: {algorithm!r} is none; choose one of {', '.join(ALGORITHMS)}")
    problem = read_problem(tree)
    steps = list(compute_steps(problem, algorithm))
    if output is Output.JSON:
        print_json({"algorithm": algorithm, "steps": [step.as_json() for step in steps]})
        return
    console = console_for_tables()
    for step in steps:
        console.print(_table(problem, algorithm, step))
        if not step.settled:
            console.print("Not settled: as tasks end and start, the shares keep changing.", style="yellow")


def _table(problem: Problem, algorithm: str, step: Step) -> Table:
    table = empty_table(
        f"{algorithm}: {_title(step.event)}", ("leaf",), ("tasks", *problem.tree.resources, "dominant share")
    )
    for name, result in step.leaves.items():
        amounts = [f"{float(amount):.6g}" for amount in (result.tasks, *result.resources.values())]
        table.add_row(name, *amounts, percent(float(result.dominant_share), ".2f"))
    return table


def _title(event: Event | None) -> str:
    if event is None:
        return "at the start"
    if event.tasks is not None:
        return f"after {event.name} has {counted(event.tasks, 'task')}"
    return f"after {event.name} {'leaves' if event.kind == 'leave' else 'joins'}"

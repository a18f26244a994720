"""`treadle lab plan`: plan the order of a DAG's tasks."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import OutputPaths
from treadle.cli._options import Output, OutputOption, ResultsOption
from treadle.dag import MACHINES_MAX
from treadle.errors import UserError

app = typer.Typer()

ALGORITHMS = ("graphene", "graphene-paper", "bfs", "cp", "random", "tetris", "cg", "cpsat")
BUDGET_MS = 1000


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
    from treadle_lab.cli.lab import _plan  # only here: it imports numba

    run = _plan.Run(budget_ms, budget_schedules, seed)
    places = OutputPaths(output=output, out=out, plot=plot)
    _plan.plan(files, file_format is Format.PSPLIB, chosen, machines, run, places)

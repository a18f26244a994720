"""`treadle lab`: run experiments on policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


@app.callback()
def lab() -> None:
    """Experiments on policies, in a checkout."""


@app.command()
def gains(
    quick: Annotated[
        bool, typer.Option("--quick", help="One load, five policies, three draws of four-hour windows: ten minutes.")
    ] = False,
    draws: Annotated[int, typer.Option(min=1, max=1000, help="Draws of each point, from seed 51 on.")] = 10,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Say of a ready-made policy whether it is one to recommend, with numbers."),
    ] = None,
    cache: Annotated[Path, typer.Option(help="A folder for the results of cells; a run goes on from it.")] = Path(
        "build/gains"
    ),
    jobs: Annotated[int, typer.Option(min=0, max=1024, help="Simulations that run at a time; 0: one a core.")] = 0,
    kept: Annotated[
        Path | None,
        typer.Option("--from", help="A file of --json instead of simulations: docs/results/kept/gains.json."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A page, docs/gains.md, whose tables are written again.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
) -> None:
    """Compare policies with YARN's fair ordering on the workloads that clusters run."""
    from treadle_lab.gains.page import OutputPaths, Source, compare  # only here: it imports numba
    from treadle_lab.gains.verdicts import verdict_tables

    places = OutputPaths(json_file, page, plot)
    compare(Source(quick, draws, cache, jobs, kept, policy), places, verdict_tables)

"""`treadle lab gains`: compare policies with YARN's fair ordering."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._options import Output, OutputOption, PlotOption, ProcessesOption, ResultsOption

app = typer.Typer()


@app.command()
def gains(
    quick: Annotated[
        bool, typer.Option("--quick", help="One load, five policies, three draws of four-hour windows: ten minutes.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Draws of each point, from seed 51 on.")] = 10,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Say of a ready-made policy whether it is one to recommend, with numbers."),
    ] = None,
    cache: Annotated[Path, typer.Option(help="A folder for the results of cells; a run goes on from it.")] = Path(
        "build/gains"
    ),
    processes: ProcessesOption = 0,
    kept: Annotated[
        Path | None,
        typer.Option("--from", help="A file of --out instead of simulations: docs/results/kept/gains.json."),
    ] = None,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    page: Annotated[Path | None, typer.Option(help="A page, docs/gains.md, whose tables are written again.")] = None,
    plot: PlotOption = None,
) -> None:
    """Compare policies with YARN's fair ordering on the workloads that clusters run."""
    from treadle_lab.gains.page import OutputPaths, Source, compare  # only here: it imports numba
    from treadle_lab.gains.verdicts import verdict_tables

    places = OutputPaths(output=output, out=out, plot=plot, page=page)
    compare(Source(quick, seeds, cache, processes, kept, policy), places, verdict_tables)

"""`treadle simulate` (Evaluate 1): simulate a workload under one or several policies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._options import (
    KeepGoingOption,
    Output,
    OutputOption,
    PlotFormatOption,
    PlotOption,
    ProcessesOption,
    ResultsOption,
    TrustOption,
    plot_formats,
)
from treadle.cli.main import switches
from treadle.errors import UserError
from treadle.shipped import find_example

app = typer.Typer()


@app.command()
def simulate(
    scenario: Annotated[
        Path | None, typer.Argument(help="A scenario in YAML (docs/scenarios.md), unless --example names one.")
    ] = None,
    example: Annotated[
        str | None, typer.Option(metavar="NAME", help="One of the example scenarios, such as two-queues.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|NAME",
            help="A treadle.yaml or a ready-made policy; may be given several times. Else those of the scenario.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31, help="The first seed, instead of the scenario's.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from the first on; each is a run.")] = 1,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="One of the policies: show what each other one changes against it, with verdicts."
        ),
    ] = None,
    processes: ProcessesOption = 1,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    csv: Annotated[Path | None, typer.Option(help="A folder for the results as comma-separated tables.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="A folder for the same tables as Parquet.")] = None,
    plot: PlotOption = None,
    plot_format: PlotFormatOption = None,
    check: Annotated[bool, typer.Option(help="Check the invariants at every step; --no-check is faster.")] = True,
    profile: Annotated[
        bool, typer.Option(help="Show where the CPU time went, and what parts from files took by the clock.")
    ] = False,
    allow_impossible: Annotated[
        bool, typer.Option("--allow-impossible", help="Go on with jobs that can never run; they end as not done.")
    ] = False,
    keep_going: KeepGoingOption = False,
    trust_code: TrustOption = False,
) -> None:
    """Run a workload on a simulated cluster, under one or several policies.

    --verbose shows slowdowns by job size and queue, and compares policies pair by pair.
    """
    if (scenario is None) == (example is None):
        raise UserError("give either a scenario or --example NAME")
    file = scenario or find_example(str(example))
    from treadle.cli import _simulate  # only here: it imports numba

    formats = plot_formats(plot, plot_format)
    places = _simulate.OutputPaths(output=output, out=out, plot=plot, formats=formats, csv=csv, parquet=parquet)
    how = _simulate.SimulateOptions(
        seed=seed,
        seeds=seeds,
        baseline=baseline,
        processes=processes or os.cpu_count() or 1,
        check=check,
        profile=profile,
        details=switches.verbose,
        keep_going=keep_going,
        allow_impossible=allow_impossible,
        trust_code=trust_code,
    )
    _simulate.simulate(file, policy or [], places, how)

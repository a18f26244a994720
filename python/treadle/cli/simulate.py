"""`treadle simulate`: run a workload on a simulated cluster, under one or several policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._results import KeepGoingOption

app = typer.Typer()


@app.command()
def simulate(
    scenario: Annotated[Path, typer.Argument(help="A scenario, as YAML: see docs/simulator.md.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|NAME",
            help="A treadle.yaml or a ready-made policy; may be given several times. Else those of the scenario.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from the scenario's on; each is a run.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the results.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots of the first seed.")] = None,
    check: Annotated[bool, typer.Option(help="Check the invariants at every step; --no-check is faster.")] = True,
    profile: Annotated[
        bool, typer.Option(help="Show where the CPU time went, and what parts from files took by the clock.")
    ] = False,
    allow_impossible: Annotated[
        bool, typer.Option("--allow-impossible", help="Go on with jobs that can never run; they end as not done.")
    ] = False,
    keep_going: KeepGoingOption = False,
) -> None:
    """Run a workload on a simulated cluster, under one or several policies."""
    from treadle.cli import _simulate  # only here: it imports numba

    how = _simulate.How(check=check, profile=profile, keep_going=keep_going, allow_impossible=allow_impossible)
    _simulate.simulate(scenario, policy or [], seeds, json_file, plot, how)

"""`treadle lab reproduce omega-engines`: run the same load on Omega's cell and on real engines in the simulator."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.cli._console import OutputPaths, counted_progress
from treadle.cli._options import Output, OutputOption, ResultsOption
from treadle_lab.cli._experiments import SeedOption, publish, seeds_option

app = typer.Typer()

SEEDS = 2


@app.command()
def omega_engines(
    hours: Annotated[float, typer.Option(min=0.1, max=1000.0, help="Simulated hours of each seed.")] = 8.0,
    machines: Annotated[int, typer.Option(min=1, max=100_000, help="Machines, each with 4 CPUs and 16 GB.")] = 100,
    seeds: Annotated[int | None, seeds_option("2")] = None,
    seed: SeedOption = 1,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
) -> None:
    """Run the same jobs and decision times on a cell and on real engines, and compare conflicts and busyness."""
    from treadle_lab.papers.omega.real_engines import Load, results_of, run_both

    places = OutputPaths(output=output, out=out)
    places.check()
    load, draws = Load(machines=machines, hours=hours), range(seed, seed + (seeds or SEEDS))
    with counted_progress("seeds") as bar:
        task = bar.add_task(f"{hours:g} simulated hours each", total=len(draws))
        agreements = run_both(load, draws, lambda done: bar.update(task, completed=done))
    results = results_of(load, draws, agreements)
    publish(results, places)
    if results.facts["shortfalls"]:
        raise typer.Exit(1)

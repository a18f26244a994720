"""`treadle lab reproduce omega-engines`: run the same load on Omega's cell and on real engines in the simulator."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.cli._console import console_for_tables, counted_progress
from treadle.cli._options import ResultsOption, check_results
from treadle_lab.cli._experiments import SeedOption, publish

app = typer.Typer()


@app.command()
def omega_engines(
    hours: Annotated[float, typer.Option(min=0.1, max=1000.0, help="Simulated, for each seed.")] = 8.0,
    machines: Annotated[int, typer.Option(min=1, max=100_000, help="Of 4 CPUs and 16 GB each.")] = 100,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many draws of jobs.")] = 2,
    seed: SeedOption = 1,
    out: ResultsOption = None,
) -> None:
    """Run the same jobs and decision times on a cell and on real engines, and compare conflicts and busyness."""
    from treadle_lab.papers.omega.real_engines import Load, results_of, run_both

    check_results(out, None)
    load, draws = (
        Load(machines=machines, hours=hours),
        range(seed, seed + seeds),
    )
    with counted_progress("seeds") as bar:
        task = bar.add_task(f"{hours:g} simulated hours each", total=seeds)
        agreements = run_both(load, draws, lambda done: bar.update(task, completed=done))
    results = results_of(load, draws, agreements)
    publish(results, console_for_tables(), out)
    if results.facts["shortfalls"]:
        raise typer.Exit(1)

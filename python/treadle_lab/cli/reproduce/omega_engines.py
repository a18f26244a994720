"""`treadle reproduce omega-engines`: the same load on Omega's cell and on real engines in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables, counted_progress
from treadle.cli._options import check_results, write_json

app = typer.Typer()


@app.command()
def omega_engines(
    hours: Annotated[float, typer.Option(min=0.1, max=1000.0, help="Simulated, for each seed.")] = 8.0,
    machines: Annotated[int, typer.Option(min=1, max=100_000, help="Of 4 CPUs and 16 GB each.")] = 100,
    t_job_service: Annotated[
        float, typer.Option(min=0.0, max=1000.0, help="Seconds a decision on a service job.")
    ] = 2.0,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many draws of jobs.")] = 2,
    first_seed: Annotated[int, typer.Option(min=0, help="The first draw's seed; the next ones follow.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for all figures.")] = None,
) -> None:
    """The same jobs and decision times on a cell and on real engines: conflict fractions and busyness side by side."""
    from treadle_lab.papers.omega.real_engines import Load, as_json, run_both
    from treadle_lab.rows import Table, show

    check_results(json_file, None)
    load = Load(machines=machines, hours=hours, t_job_service_s=t_job_service)
    console = console_for_tables()
    chosen = range(first_seed, first_seed + seeds)
    with counted_progress("seeds") as bar:
        task = bar.add_task(f"{hours:g} simulated hours each", total=seeds)
        agreements = run_both(load, chosen, lambda done: bar.update(task, completed=done))
    rows = []
    for each in agreements:
        allowed = "-" if each.tolerance is None else f"{each.tolerance:.0%}"
        numbers = (f"{each.cell:.4g}", f"{each.engines:.4g}", f"{each.difference:+.2%}", allowed)
        rows.append((each.scheduler, each.figure, *numbers))
    heading = ("scheduler", "figure", "cell", "engines", "difference", "allowed")
    show(Table("A cell and real engines under the same load", heading, rows, names=2), console)
    if json_file is not None:
        write_json(json_file, as_json(load, chosen, agreements))
    if not all(each.within for each in agreements):
        console.print("The two do not agree: a difference is larger than allowed.", style="red")
        raise typer.Exit(1)

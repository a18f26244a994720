"""`treadle lab`: experiments on policies, in a checkout."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from treadle_lab.estimators import Accuracy

app = typer.Typer(help="Experiments on policies, in a checkout.", no_args_is_help=True)


@app.command(short_help="How wrong each estimator of task durations is on Google's trace.")
def errors(
    folder: Annotated[Path, typer.Argument(help="The folder of the Google 2011 extract, with both tables.")],
    seeds: Annotated[int, typer.Option(min=1, help="How often pilots are drawn.")] = 3,
    first_seed: Annotated[int, typer.Option(min=0)] = 0,
    ratio: Annotated[float, typer.Option(min=0, max=1, help="Of tasks that are pilots.")] = 0.03,
    tasks_max: Annotated[int, typer.Option(min=3, help="Wider jobs are not estimated.")] = 150,
    as_known: Annotated[bool, typer.Option(help="A job is history when it has ended, not when it came.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Show how wrong each estimator of task durations is on wide jobs, each from the jobs before it (SLearn, 4.3)."""
    from rich.console import Console
    from rich.progress import Progress

    from treadle.cli._console import console_for_tables
    from treadle.tables import empty_table
    from treadle.workload.clusters import google_jobs
    from treadle_lab.estimators import ESTIMATORS, measure
    from treadle_lab.papers.slearn.trace import google_record

    console = Console(stderr=True)
    said = {name: found for name, found in ESTIMATORS.items() if name not in ("none", "oracle")}
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("estimating", total=seeds + 1)
        records = [google_record(job) for job in google_jobs(folder)]
        records.sort(key=lambda record: record.features.submit_ms)
        bars.advance(bar)
        runs = []
        for seed in range(first_seed, first_seed + seeds):
            runs.append(measure(said, [], records, seed, ratio=ratio, tasks_max=tasks_max, in_order_of_end=as_known))
            bars.advance(bar)
    figures = {name: _figures([run[name] for run in runs]) for name in said}
    if as_json:
        typer.echo(json.dumps(figures))
        return
    digits = {"jobs": 0, "silent": 0, "error_p50": 1, "error_p90": 1, "error_mean": 1, "within": 3}
    title = f"Error of the mean task duration, in percent, over {seeds} seeds"
    columns = ("jobs", "silent", "P50", "P90", "mean", "share in interval")
    table = empty_table(title, ("estimator",), columns)
    for name, found in figures.items():
        table.add_row(name, *("" if value is None else f"{value:.{digits[key]}f}" for key, value in found.items()))
    console_for_tables().print(table)


def _figures(runs: list[Accuracy]) -> dict[str, float | None]:
    """Return the means over seeds; of errors None if no job was estimated."""
    said = [run for run in runs if len(run.percent)]
    errors = {
        "error_p50": [run.quantile(0.5) for run in said],
        "error_p90": [run.quantile(0.9) for run in said],
        "error_mean": [float(run.percent.mean()) for run in said],
        "within": [run.within for run in said],
    }
    return {
        "jobs": fmean(len(run.percent) for run in runs),
        "silent": fmean(run.silent for run in runs),
        **{name: fmean(values) if values else None for name, values in errors.items()},
    }


@app.command()
def gains(
    quick: Annotated[
        bool, typer.Option("--quick", help="One load, five policies, three draws of four-hour windows: ten minutes.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="The points whose names contain this; may be repeated.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, max=1000, help="Draws of each point, from seed 51 on.")] = 10,
    cache: Annotated[Path, typer.Option(help="A folder for the results of cells; a run goes on from it.")] = Path(
        "build/gains"
    ),
    jobs: Annotated[int, typer.Option(min=0, max=1024, help="Simulations that run at a time; 0: one a core.")] = 0,
    no_run: Annotated[bool, typer.Option("--no-run", help="Take the results that the cache has; run nothing.")] = False,
    kept: Annotated[
        Path | None,
        typer.Option("--from", help="A file of --json instead of simulations: docs/results/kept/gains.json."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A file for the page of results, in Markdown.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
) -> None:
    """Compare policies with YARN's fair ordering on the workloads that clusters run."""
    from treadle_lab.gains.page import Places, Source, compare  # only here: it imports numba

    places = Places(json_file, page, plot)
    compare(Source(quick, tuple(only or ()), draws, cache, jobs, no_run, kept), places)

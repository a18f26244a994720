"""`treadle lab reproduce omega`: compare monolithic, two-level and shared-state scheduling of one cell."""

from __future__ import annotations

import time
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from treadle.cli._console import OutputPaths, note
from treadle.cli._options import Output, OutputOption, PlotOption, ResultsOption
from treadle.errors import percent
from treadle_lab.cli._experiments import SeedOption, chosen, publish, refuse, seeds_option, simulating

app = typer.Typer()

SEEDS = 5


class WorkloadName(StrEnum):
    """Where the jobs of sweeps come from."""

    REFERENCE = "reference"
    GOOGLE = "google"


@app.command()
def omega(
    quick: Annotated[bool, typer.Option("--quick", help="A few points of each figure, two seeds.")] = False,
    seeds: Annotated[int | None, seeds_option("5, or 2 with --quick")] = None,
    seed: SeedOption = 1,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="5, 6, 7, 8, 10, 13, 14, 15 or 16; may be repeated. Default: all."),
    ] = None,
    workload: Annotated[
        WorkloadName,
        typer.Option(
            help="Jobs of sweeps: those of the original simulator in an empty cell, or a day like cluster C's from "
            "Google's trace in a cell that is 60 % full."
        ),
    ] = WorkloadName.REFERENCE,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    plot: PlotOption = None,
) -> None:
    """Run Omega's architectures on one cell: waits, busyness, conflicts, next to the original simulator's."""
    from treadle_lab.harness.data import FACEBOOK_2010, GOOGLE, OMEGA, given_or_default
    from treadle_lab.papers.omega import figures, points, specialist

    is_google = workload is WorkloadName.GOOGLE
    known = figures.GOOGLE_FIGURES if is_google else figures.FIGURES
    names = chosen(figure, (*known, *specialist.FIGURES), option="--figure")
    if is_google and figure and not set(names) & set(known):
        refuse("these figures have Google's day in any case", workload=True)
    places = OutputPaths(output=output, out=out, plot=plot).check()
    swept = [known[name] for name in names if name in known]
    wanted = list(dict.fromkeys(point for one in swept for point in (one.quick if quick else one.points)))
    mapreduce = any(name in specialist.FIGURES for name in names)
    google = points.read_google_day(given_or_default(None, GOOGLE, note)) if is_google or mapreduce else None
    draws = range(seed, seed + (seeds or (2 if quick else SEEDS)))
    runs: list[points.Run] = []
    days: list[specialist.SpecialistRun] = []
    began_s = time.perf_counter()
    if wanted:
        with simulating(None, what="simulated days") as progress:
            runs = points.run_points(wanted, draws, progress, google if is_google and google else points.REFERENCE_DAY)
    if mapreduce and google is not None:
        jobs = specialist.read_mapreduce(given_or_default(None, FACEBOOK_2010, note))
        with simulating(None, what="days with a scheduler for MapReduce") as progress:
            days = specialist.run_specialist(google, jobs, draws, progress)
    compared = []
    if runs and not is_google:
        compared = points.compare(runs, points.read_reference(given_or_default(None, OMEGA, note)))
    results = figures.results_of(runs, compared, days, time.perf_counter() - began_s)
    publish(results, places, partial(figures.plot_omega, runs, days, known, "omega-google" if is_google else "omega"))
    text = f"{len(runs) + len(days)} simulated days in {results.facts['wall_s']:.0f} s"
    if compared:
        within = percent(results.facts["within"], ".1f")
        text += f"; {within} of {len(compared)} figures of the original's are within their tolerance"
    note(text)

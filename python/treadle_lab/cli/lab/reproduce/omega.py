"""`treadle lab reproduce omega`: compare monolithic, two-level and shared-state scheduling of one cell."""

from __future__ import annotations

import time
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import OutputPaths, note
from treadle.cli._options import Output, OutputOption, PlotOption, ResultsOption
from treadle.errors import UserError, percent
from treadle_lab.cli._experiments import SeedOption, publish, seeds_option, simulating

if TYPE_CHECKING:
    from treadle_lab.papers.omega.comparison import Comparison
    from treadle_lab.papers.omega.points import GoogleDay, Point, Run
    from treadle_lab.papers.omega.specialist import SpecialistRun

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
    from treadle_lab.papers.omega.figures import figures_of, plot_all, results_of

    is_google = workload == WorkloadName.GOOGLE
    swept, mapreduce = _of_figures(figure, workload, quick=quick)
    places = OutputPaths(output=output, out=out, plot=plot)
    places.check()
    google = _google_day() if is_google or mapreduce else None
    chosen = range(seed, seed + (seeds or (2 if quick else SEEDS)))
    began_s = time.perf_counter()
    runs = _run_points(swept, chosen, google if is_google else None)
    specialist = _run_specialist(google, chosen) if mapreduce and google is not None else []
    compared = [] if is_google else _compared(runs)
    results = results_of(runs, compared, specialist, time.perf_counter() - began_s)
    name = "omega-google" if is_google else "omega"
    publish(results, places, partial(plot_all, runs, specialist, figures_of(workload), name))
    days = f"{len(runs) + len(specialist)} simulated days in {results.facts['wall_s']:.0f} s"
    of = len(results.facts["reference"])
    beside = (
        f"; {percent(results.facts['within'], '.1f')} of {of} figures of the original's are within their tolerance"
        if of
        else ""
    )
    note(days + beside)


def _of_figures(figures: list[str] | None, workload: WorkloadName, *, quick: bool) -> tuple[list[Point], bool]:
    """Return the points of figures, each once, and whether figures 15 and 16 are among them."""
    from treadle_lab.papers.omega.figures import figures_of
    from treadle_lab.papers.omega.specialist import FIGURES as OF_SPECIALIST

    known = figures_of(workload)
    for name in figures or ():
        if name not in known and name not in OF_SPECIALIST:
            raise UserError(f"--figure {name}: there is none here; choose of {', '.join((*known, *OF_SPECIALIST))}")
    names = figures or [*known, *OF_SPECIALIST]
    swept = [known[name] for name in names if name in known]
    points = list(dict.fromkeys(point for one in swept for point in (one.quick if quick else one.points)))
    return points, any(name in OF_SPECIALIST for name in names)


def _google_day() -> GoogleDay:
    from treadle_lab.harness.data import GOOGLE, given_or_default
    from treadle_lab.papers.omega.points import read_google_day

    return read_google_day(given_or_default(None, GOOGLE, note))


def _compared(runs: list[Run]) -> list[Comparison]:
    """Compare runs with those of the original simulator."""
    from treadle_lab.harness.data import OMEGA, given_or_default
    from treadle_lab.papers.omega.comparison import compare, read_reference

    return compare(runs, read_reference(given_or_default(None, OMEGA, note))) if runs else []


def _run_points(points: list[Point], seeds: range, google: GoogleDay | None) -> list[Run]:
    from treadle_lab.papers.omega.points import REFERENCE_DAY, run_points

    if not points:
        return []
    with simulating(None, what="simulated days") as progress:
        return run_points(points, seeds, progress, google or REFERENCE_DAY)


def _run_specialist(google: GoogleDay, seeds: range) -> list[SpecialistRun]:
    from treadle_lab.harness.data import FACEBOOK_2010, given_or_default
    from treadle_lab.papers.omega.specialist import read_mapreduce, run_specialist

    mapreduce = read_mapreduce(given_or_default(None, FACEBOOK_2010, note))
    with simulating(None, what="days with a scheduler for MapReduce") as progress:
        return run_specialist(google, mapreduce, seeds, progress)

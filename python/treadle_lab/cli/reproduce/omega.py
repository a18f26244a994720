"""`treadle reproduce omega`: monolithic, two-level and shared-state scheduling of one cell."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, say
from treadle.cli._options import check_results
from treadle.errors import UserError
from treadle_lab.cli._experiments import FirstSeedOption, JsonFileOption, PlotOption, publish, simulating

if TYPE_CHECKING:
    from treadle_lab.papers.omega.comparison import Comparison
    from treadle_lab.papers.omega.points import GoogleDay, Point, Run
    from treadle_lab.papers.omega.specialist import MapReduceJobs, SpecialistRun

app = typer.Typer()

SEEDS = 5


class WorkloadName(StrEnum):
    """Where the jobs of sweeps come from."""

    REFERENCE = "reference"
    GOOGLE = "google"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run."""

    points: list[Point]
    """Of sweeps."""
    specialist: bool
    """Whether figures 15 and 16 are wanted."""
    named: bool
    """Whether these were named by the user."""


@app.command()
def omega(
    quick: Annotated[bool, typer.Option("--quick", help="A few points of each figure, two seeds.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help=f"How many draws of jobs for each point; default: {SEEDS}.")
    ] = None,
    first_seed: FirstSeedOption = 1,
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
    points: Annotated[
        Path | None,
        typer.Option(
            help="Points of a CSV instead of figures: architecture,machines,batch_rate_factor,t_job_service_s. "
            "Further columns are passed over."
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Runs of the original simulator to compare with; default: those of the checkout's data folder."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Folder of the extract of Google's trace of 2011; default: that of the checkout's data."),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(help="SWIM's sample of MapReduce jobs for figures 15 and 16; default: FB-2010 of the data."),
    ] = None,
    json_file: JsonFileOption = None,
    plot: PlotOption = None,
) -> None:
    """Omega's architectures on one cell: waits, busyness, conflicts, next to the original's and the paper's."""
    from treadle_lab.papers.omega.figures import figures_of, plot_all, results_of

    if points is not None and (figure or quick):
        raise UserError("--points: not together with --figure or --quick; name one of them")
    is_google = workload == WorkloadName.GOOGLE
    wanted = _of_figures(figure, workload, quick=quick) if points is None else _of_file(points)
    if reference is not None and (is_google or not wanted.points):
        raise UserError("--reference: the original's runs are of points of its own workload, of which none is run")
    _check_data(wanted, trace, sample, is_google=is_google)
    check_results(json_file, plot)
    console = console_for_tables(170)
    compare = _comparison(console, reference) if wanted.points and not is_google else None
    google = _google_day(console, trace) if is_google else None
    jobs = _jobs_of_specialist(console, wanted, google, trace, sample)
    chosen = range(first_seed, first_seed + (seeds or (2 if quick else SEEDS)))
    began_s = time.perf_counter()
    runs = _run_points(console, wanted.points, chosen, google)
    specialist = _run_specialist(console, jobs, chosen)
    found = results_of(runs, [] if compare is None else compare(runs), specialist, time.perf_counter() - began_s)
    name = "omega-google" if is_google else "omega"
    publish(found, console, json_file, plot, partial(plot_all, runs, specialist, figures_of(workload), name))
    days = f"{len(runs) + len(specialist)} simulated days in {found.facts['wall_s']:.0f} s"
    of = len(found.facts["reference"])
    beside = f"; {found.facts['within']:.1%} of {of} figures of the original's are within their tolerance" if of else ""
    console.print(days + beside, highlight=False)


def _of_file(file: Path) -> Wanted:
    from treadle_lab.papers.omega.points import read_points

    return Wanted(read_points(file), specialist=False, named=False)


def _of_figures(figures: list[str] | None, workload: WorkloadName, *, quick: bool) -> Wanted:
    """Return the points of figures, each once."""
    from treadle_lab.papers.omega.figures import figures_of
    from treadle_lab.papers.omega.specialist import FIGURES as OF_SPECIALIST

    known = figures_of(workload)
    for name in figures or ():
        if name not in known and name not in OF_SPECIALIST:
            raise UserError(f"--figure {name}: there is none here; choose of {', '.join((*known, *OF_SPECIALIST))}")
    names = figures or [*known, *OF_SPECIALIST]
    swept = [known[name] for name in names if name in known]
    points = list(dict.fromkeys(point for one in swept for point in (one.quick if quick else one.points)))
    return Wanted(points, any(name in OF_SPECIALIST for name in names), named=bool(figures))


def _check_data(wanted: Wanted, trace: Path | None, sample: Path | None, *, is_google: bool) -> None:
    """See that data that is named is read."""
    if trace is not None and not (is_google or wanted.specialist):
        raise UserError("--trace: nothing that is run reads it; take --workload google, or --figure 15 or 16")
    if sample is not None and not wanted.specialist:
        raise UserError("--sample: nothing that is run reads it; take --figure 15 or 16")


def _google_day(console: Console, trace: Path | None) -> GoogleDay:
    from treadle_lab.harness.data import GOOGLE, given_or_found
    from treadle_lab.papers.omega.points import read_google_day

    return read_google_day(given_or_found(trace, GOOGLE, partial(say, console)))


def _comparison(console: Console, reference: Path | None) -> Callable[[list[Run]], list[Comparison]] | None:
    """Return what compares runs with the original's; None: there are none of these."""
    from treadle_lab.harness.data import OMEGA, found, given_or_found
    from treadle_lab.papers.omega.comparison import compare, read_reference

    if reference is None and found(OMEGA) is None:
        return None
    originals = read_reference(given_or_found(reference, OMEGA, partial(say, console)))
    return lambda runs: compare(runs, originals)


def _jobs_of_specialist(
    console: Console, wanted: Wanted, google: GoogleDay | None, trace: Path | None, sample: Path | None
) -> tuple[GoogleDay, MapReduceJobs] | None:
    """Read the jobs of figures 15 and 16 if these are wanted, and if the data is there or was asked for by name."""
    from treadle_lab.harness.data import FACEBOOK_2010, GOOGLE, found, given_or_found
    from treadle_lab.papers.omega.specialist import read_mapreduce

    if not wanted.specialist:
        return None
    missing = [data for data, given in ((GOOGLE, trace), (FACEBOOK_2010, sample)) if given is None and not found(data)]
    if missing and not (wanted.named or trace or sample):
        say(console, f"figures 15 and 16 are left out: this installation has no {missing[0].title}; see --figure 15")
        return None
    mapreduce = read_mapreduce(given_or_found(sample, FACEBOOK_2010, partial(say, console)))
    return google or _google_day(console, trace), mapreduce


def _run_points(console: Console, points: list[Point], seeds: range, google: GoogleDay | None) -> list[Run]:
    from treadle_lab.papers.omega.points import REFERENCE_DAY, run_points

    if not points:
        return []
    with simulating(console, None, what="simulated days") as progress:
        return run_points(points, seeds, progress, google or REFERENCE_DAY)


def _run_specialist(
    console: Console, jobs: tuple[GoogleDay, MapReduceJobs] | None, seeds: range
) -> list[SpecialistRun]:
    from treadle_lab.papers.omega.specialist import run_specialist

    if jobs is None:
        return []
    with simulating(console, None, what="days with a scheduler for MapReduce") as progress:
        return run_specialist(*jobs, seeds, progress)

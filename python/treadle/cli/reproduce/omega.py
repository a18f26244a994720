"""`treadle reproduce omega`: monolithic, two-level and shared-state scheduling of one cell."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import console_for_tables, counted_progress, say
from treadle.cli._results import check_results, check_writable, write_json, writing
from treadle.errors import UserError

if TYPE_CHECKING:
    from treadle.lab.reproduce.omega.points import Point

app = typer.Typer()

SEEDS = 5


@app.command()
def omega(
    quick: Annotated[bool, typer.Option("--quick", help="A few points of each figure, two seeds.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help=f"How many draws of jobs for each point; default: {SEEDS}.")
    ] = None,
    first_seed: Annotated[int, typer.Option(min=0, help="The first draw's seed; the next ones follow.")] = 1,
    figure: Annotated[
        list[str] | None, typer.Option(help="5, 6, 7, 8, 10, 13 or 14; may be repeated. Default: all.")
    ] = None,
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
    csv_file: Annotated[Path | None, typer.Option("--csv", help="A file for a row a scheduler and seed.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for all figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots like the paper's.")] = None,
) -> None:
    """Omega's architectures on one cell: waits, busyness, conflicts, beside the original's and the paper's."""
    from treadle.lab.harness.data import OMEGA, found, given_or_found
    from treadle.lab.reproduce.omega.claims import claims_of
    from treadle.lab.reproduce.omega.experiment import run_points
    from treadle.lab.reproduce.omega.points import read_points
    from treadle.lab.reproduce.omega.reference import compare, read_reference
    from treadle.lab.reproduce.omega.report import Report, claims_table, points_table, timing_table

    if points is not None and (figure or quick):
        raise UserError("--points: not together with --figure or --quick; name one of them")
    chosen = _of_figures(figure, quick=quick) if points is None else read_points(points)
    check_results(json_file, plot)
    if csv_file is not None:
        check_writable("--csv", csv_file)
    console = console_for_tables(140)
    place = given_or_found(reference, OMEGA, partial(say, console)) if reference or found(OMEGA) else None
    originals = {} if place is None else read_reference(place)
    count = seeds or (2 if quick else SEEDS)
    began_s = time.perf_counter()
    with counted_progress(console, "runs") as bar:
        task = bar.add_task("compiling, or reading compiled code", total=None)
        runs = run_points(
            chosen,
            range(first_seed, first_seed + count),
            lambda done, total: bar.update(task, description="simulated days", completed=done, total=total),
        )
    report = Report(runs, compare(runs, originals), claims_of(runs), time.perf_counter() - began_s)
    console.print(points_table(runs))
    if report.claims:
        console.print(claims_table(report.claims))
    console.print(timing_table(runs))
    console.print(f"{len(runs)} simulated days in {report.wall_s:.0f} s", highlight=False)
    if report.comparisons:
        inside = sum(one.within for one in report.comparisons)
        console.print(
            f"{inside} of {len(report.comparisons)} figures of the original simulator's are within their tolerance "
            f"({report.within:.1%})",
            highlight=False,
        )
    if csv_file is not None:
        with writing("--csv", csv_file, "file"):
            csv_file.write_text(report.as_csv(), encoding="utf-8")
    if json_file is not None:
        write_json(json_file, report.as_json())
    if plot is not None:
        from treadle.lab.reproduce.omega.plot import plot_omega  # only here: matplotlib is an extra

        with writing("--plot", plot, "folder"):
            for file in plot_omega(runs, plot):
                say(console, f"wrote {file}")


def _of_figures(figures: list[str] | None, *, quick: bool) -> list[Point]:
    """Return the points of figures, each once."""
    from treadle.lab.reproduce.omega.points import FIGURES

    for name in figures or ():
        if name not in FIGURES:
            raise UserError(f"--figure {name}: there is none here; choose of {', '.join(FIGURES)}")
    wanted = [FIGURES[name] for name in figures or FIGURES]
    return list(dict.fromkeys(point for one in wanted for point in (one.quick if quick else one.points)))

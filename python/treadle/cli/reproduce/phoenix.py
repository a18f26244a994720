"""`treadle reproduce phoenix`: probes, worker queues and constraints: Sparrow, Hawk, Eagle, Yacc-D and Phoenix."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, counted_progress, say
from treadle.cli._results import check_results, write_json, writing
from treadle.errors import UserError

if TYPE_CHECKING:
    from treadle.lab.reproduce.phoenix.experiment import Run, Setup
    from treadle.lab.reproduce.phoenix.reference import Comparison
    from treadle.lab.reproduce.phoenix.report import Report
    from treadle.simulator.workers.trace import Trace

app = typer.Typer()

SLOTS = 15_000
SEEDS = 10
FIRST_SEED = 11
DEFAULT_SYSTEMS = "sparrow,hawk,eagle,dlwl,sparrow-c,hawk-c,eagle-c,yacc-d-c,phoenix,one-queue-srpt-c"


@app.command()
def phoenix(
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Jobs: a file of Eagle's format (submit_s n_tasks mean_s d1 ... dn), or the folder of the extract of "
            "Google's trace of 2011; default: that of the checkout's data."
        ),
    ] = None,
    systems: Annotated[str, typer.Option(help="Systems, separated by commas.")] = DEFAULT_SYSTEMS,
    slots: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help=f"Workers; default: {SLOTS:,}, or as many as --machines has."),
    ] = None,
    faster: Annotated[float, typer.Option(min=0.001, max=1000.0, help="Divides arrival times.")] = 1.0,
    machines: Annotated[
        Path | None, typer.Option(help="What machines have, one a worker: machine,ATTRIBUTE,... With --constraints.")
    ] = None,
    constraints: Annotated[
        Path | None, typer.Option(help="What jobs ask for: job,hard,soft; job is the trace's line from 0.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two seeds and, without --machines, every tenth job and worker.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help=f"How many draws; default: {SEEDS}.")] = None,
    first_seed: Annotated[
        int, typer.Option(min=0, help="The first draw's seed; constraints were calibrated on 1 to 10.")
    ] = FIRST_SEED,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for all figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots like the paper's.")] = None,
) -> None:
    """Schedulers of worker queues on a trace, with and without constraints, beside Phoenix' paper."""
    from treadle.lab.harness.statistics import check_intervals
    from treadle.lab.reproduce.phoenix.ratios import ratios_of
    from treadle.lab.reproduce.phoenix.report import Report

    names = _names(systems)
    if (machines is None) != (constraints is None):
        raise UserError("--machines and --constraints: name both, or neither")
    count = seeds or (2 if quick else SEEDS)
    check_intervals("--seeds", count)
    check_results(json_file, plot)
    console = console_for_tables(150)
    jobs = _trace(console, trace).faster(faster)
    if machines is not None and constraints is not None:
        setup, calibration = _given(jobs, machines, constraints, slots, faster), None
    else:
        setup, calibration = _made(jobs, slots or SLOTS, faster, quick=quick)
    runs = _run(console, names, setup, range(first_seed, first_seed + count))
    report = Report(runs, ratios_of(runs), _comparisons(runs, jobs), calibration)
    _show(console, report)
    if json_file is not None:
        write_json(json_file, report.as_json())
    if plot is not None:
        _plot(console, report, setup, plot)


def _names(systems: str) -> list[str]:
    from treadle.simulator.workers.systems import SYSTEMS

    names = list(dict.fromkeys(name.strip() for name in systems.split(",") if name.strip()))
    for name in names:
        if name not in SYSTEMS:
            raise UserError(f"--systems: {name!r} is none; choose of {', '.join(SYSTEMS)}")
    if not names:
        raise UserError(f"--systems: none is named; choose of {', '.join(SYSTEMS)}")
    return names


def _trace(console: Console, path: Path | None) -> Trace:
    from treadle.lab.harness.data import GOOGLE, given_or_found
    from treadle.lab.reproduce.phoenix.traces import any_trace

    found = any_trace(given_or_found(path, GOOGLE, partial(say, console)))
    say(
        console,
        f"{found.name}: {len(found):,} jobs, {len(found.duration_s):,} tasks; long above a mean of {found.cutoff_s} s, "
        f"on the last {found.long_percent:g} % of workers",
    )
    return found


def _given(jobs: Trace, machines: Path, constraints: Path, slots: int | None, faster: float) -> Setup:
    """Return what is run with the machines and constraints of files."""
    from treadle.lab.reproduce.phoenix.experiment import Setup
    from treadle.lab.reproduce.phoenix.files import eligible_of, places_of, read_constraints, read_machines

    have = read_machines(machines)
    if slots is not None and slots != have.slots:
        raise UserError(f"--slots {slots}: {machines} has {have.slots} machines, each one worker; leave --slots out")
    eligible = eligible_of(jobs, have, places_of(jobs, read_constraints(constraints, len(jobs))))
    return Setup(jobs, have.slots, faster, lambda _: eligible)


def _made(jobs: Trace, slots: int, faster: float, *, quick: bool) -> tuple[Setup, dict[str, object]]:
    """Return what is run with constraints that are made."""
    from treadle.lab.reproduce.phoenix.calibration import FASTER, SEEDS, SLOTS, TARGET, supply_of
    from treadle.lab.reproduce.phoenix.experiment import QUICK_STEP, Setup
    from treadle.lab.reproduce.phoenix.synthesis import synthesised

    if quick:
        jobs, slots = jobs.every(QUICK_STEP), max(1, slots // QUICK_STEP)
    supply, measured = supply_of(jobs.name)
    calibration: dict[str, object] = {
        "target": TARGET,
        "ratio": "eagle-c/eagle short p99_s",
        "supply": supply,
        "measured": measured,
        "seeds": list(SEEDS),
        "slots": SLOTS,
        "faster": FASTER,
    }
    return Setup(jobs, slots, faster, lambda seed: synthesised(jobs, slots, supply, seed)), calibration


def _comparisons(runs: list[Run], jobs: Trace) -> list[Comparison]:
    from treadle.lab.harness.data import EAGLE, found
    from treadle.lab.reproduce.phoenix.reference import compare, read_reference

    place = found(EAGLE)
    if place is None or not jobs.name.startswith("goog"):
        return []
    return compare(runs, read_reference(place))


def _run(console: Console, names: list[str], setup: Setup, seeds: range) -> list[Run]:
    from treadle.lab.reproduce.phoenix.experiment import run_systems

    with counted_progress(console, "runs") as bar:
        task = bar.add_task("compiling, or reading compiled code", total=None)
        return run_systems(
            names, setup, seeds, lambda done, total: bar.update(task, description="runs", completed=done, total=total)
        )


def _show(console: Console, report: Report) -> None:
    """Print the tables."""
    from treadle.lab.reproduce.phoenix.report import comparison_table, ratios_table, runs_table

    console.print(runs_table(report.runs))
    if report.ratios:
        console.print(ratios_table(report.ratios))
    if report.comparisons:
        console.print(comparison_table(report.comparisons))
        inside = sum(one.within for one in report.comparisons)
        say(
            console,
            f"{inside} of {len(report.comparisons)} figures of the original simulator's are within their tolerance",
        )
    for note in report.notes:
        say(console, note)


def _plot(console: Console, report: Report, setup: Setup, folder: Path) -> None:
    # only here: matplotlib is an extra
    from treadle.lab.reproduce.phoenix.plot import plot_phoenix

    with writing("--plot", folder, "folder"):
        for file in plot_phoenix(report, setup, folder):
            say(console, f"wrote {file}")

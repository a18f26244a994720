"""`treadle reproduce phoenix`: probes, worker queues and constraints: Sparrow, Hawk, Eagle, Yacc-D and Phoenix."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, counted_progress, say
from treadle.cli._options import check_results
from treadle.errors import UserError, nearest
from treadle_lab.cli._experiments import (
    CacheOption,
    JsonFileOption,
    PlotOption,
    ProcessesOption,
    compiling_task,
    going_on,
    publish,
    say_seeds,
)

if TYPE_CHECKING:
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.models.worker_state import Trace
    from treadle_lab.papers.phoenix.experiment import Run, Setup
    from treadle_lab.papers.phoenix.figures import Comparison

app = typer.Typer()

SLOTS = 15_000
SEEDS = 10
FIRST_SEED = 11
RELAXED_SLOWDOWN = 1.25
QUICK_STEP = 10
DEFAULT_SYSTEMS = "sparrow,hawk,eagle,dlwl,sparrow-c,hawk-c,eagle-c,yacc-d-c,phoenix,one-queue-srpt-c"


@app.command()
def phoenix(
    trace: Annotated[
        str,
        typer.Option(
            metavar="google|facebook|yahoo",
            help="Jobs: Google's of 2011; facebook and yahoo are made.",
        ),
    ] = "google",
    systems: Annotated[
        str, typer.Option(help="Systems, separated by commas; central: Treadle's engine, which takes minutes a run.")
    ] = DEFAULT_SYSTEMS,
    slots: Annotated[int, typer.Option(min=1, max=1_000_000, help="Workers.")] = SLOTS,
    faster: Annotated[float, typer.Option(min=0.001, max=1000.0, help="Divides arrival times.")] = 1.0,
    relaxed_slowdown: Annotated[
        float,
        typer.Option(min=1.0, max=100.0, help="A task runs this many times as long where its soft constraints fail."),
    ] = RELAXED_SLOWDOWN,
    step: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Take every so manieth job, and as few workers.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds, every tenth job and worker.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help=f"How many draws; default: {SEEDS}.")] = None,
    first_seed: Annotated[
        int, typer.Option(min=0, help="The first draw's seed; constraints were calibrated on 1 to 10.")
    ] = FIRST_SEED,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
    json_file: JsonFileOption = None,
    plot: PlotOption = None,
) -> None:
    """Schedulers of worker queues on a trace, with and without constraints, next to Phoenix' paper."""
    from treadle_lab.papers.phoenix.constraints import SAID
    from treadle_lab.papers.phoenix.figures import plot_phoenix, results_of

    names = _names(systems)
    settings = _run_settings(names, cache, processes)
    count = seeds or (2 if quick else SEEDS)
    check_results(json_file, plot)
    console = console_for_tables(150)
    jobs = _trace(console, trace).faster(faster)
    setup, calibration = _setup(jobs, slots, faster, step or (QUICK_STEP if quick else 1))
    setup = replace(setup, relaxed_slowdown=relaxed_slowdown)
    seeds_ = range(first_seed, first_seed + count)
    with going_on(console, cache):
        runs = _run(console, names, setup, seeds_, settings)
    notes = [SAID[setup.trace.name]] if setup.trace.name in SAID else []
    results = results_of(runs, comparisons := _comparisons(runs, setup.trace), setup, calibration, notes)
    publish(results, console, json_file, plot, partial(plot_phoenix, runs, setup))
    say_seeds(seeds_, console)
    if comparisons:
        inside = f"{sum(one.within for one in comparisons)} of {len(comparisons)}"
        say(console, f"{inside} figures of the original simulator's are within their tolerance")


def _names(systems: str) -> list[str]:
    from treadle_lab.models.workers import SYSTEMS
    from treadle_lab.papers.phoenix.central import CENTRAL

    known = [*SYSTEMS, "central", *CENTRAL]
    given = [name.strip() for name in systems.split(",") if name.strip()]
    names = list(dict.fromkeys(one for name in given for one in (CENTRAL if name == "central" else [name])))
    for name in names:
        if name not in known:
            raise UserError(f"--systems: {name!r} is none; choose of {', '.join(known)}")
    if not names:
        raise UserError(f"--systems: none is named; choose of {', '.join(known)}")
    return names


def _trace(console: Console, name: str) -> Trace:
    from treadle_lab.papers.phoenix.constraints import SAID, TRACES, trace_named

    if name not in TRACES:
        raise UserError(f"--trace: {name!r} is none; choose of {', '.join(TRACES)}{nearest(name, TRACES)}")
    trace = trace_named(name, partial(say, console))
    if name in SAID:
        say(console, SAID[name])
    say(
        console,
        f"{trace.name}: {len(trace):,} jobs, {len(trace.duration_s):,} tasks; long above a mean of {trace.cutoff_s} s, "
        f"on the last {trace.long_percent:g} % of workers",
    )
    return trace


def _setup(jobs: Trace, slots: int, faster: float, step: int) -> tuple[Setup, dict[str, object]]:
    """Return what is run with constraints that are made."""
    from treadle_lab.papers.phoenix.constraints import made_for
    from treadle_lab.papers.phoenix.experiment import FOUND, Setup, as_json

    calibration = FOUND[jobs.name]
    jobs, slots = jobs.every(step), max(1, slots // step)
    setup = Setup(jobs, slots, faster, lambda seed: made_for(jobs, slots, calibration.supply, seed))
    return setup, as_json(calibration)


def _run_settings(names: list[str], cache: Path | None, processes: int) -> RunSettings:
    """Return how runs of the engine are to be run.

    Raises:
        UserError: options are given for them, and there are none.
    """
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.papers.phoenix.central import CENTRAL

    for option, value in (("--cache", cache), ("--processes", processes)):
        if value and not any(name in CENTRAL for name in names):
            raise UserError(f"{option}: is for runs of the engine, and --systems names none (central); leave it out")
    return RunSettings(cache, processes)


def _comparisons(runs: list[Run], jobs: Trace) -> list[Comparison]:
    from treadle_lab.harness.data import EAGLE, find_data
    from treadle_lab.papers.phoenix.figures import compare, read_references

    place = find_data(EAGLE)
    if place is None or not jobs.name.startswith("goog"):
        return []
    return compare(runs, read_references(place))


def _run(console: Console, names: list[str], setup: Setup, seeds: range, settings: RunSettings) -> list[Run]:
    from treadle_lab.papers.phoenix.central import CENTRAL, about_cpu_s
    from treadle_lab.papers.phoenix.experiment import run_systems

    central = [name for name in names if name in CENTRAL]
    if central:
        say(
            console,
            f"{', '.join(central)}: {len(central) * len(seeds)} runs of the engine itself, about "
            f"{about_cpu_s(setup.trace) / 60:.0f} min of CPU each; --step and --seeds make it shorter",
        )
    with counted_progress() as bar:
        runs = compiling_task(bar)
        jobs = bar.add_task("compiling, or reading compiled code", total=None, visible=bool(central))
        return run_systems(
            names,
            setup,
            seeds,
            lambda done, total: bar.update(runs, description="runs", completed=done, total=total),
            lambda done, total: bar.update(jobs, description="jobs of the engine", completed=done, total=total),
            settings,
        )

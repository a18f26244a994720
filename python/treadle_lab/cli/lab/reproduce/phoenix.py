"""`treadle lab reproduce phoenix`: compare probes, worker queues and constraints: Sparrow, Hawk, Eagle and Phoenix."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import OutputPaths, note
from treadle.cli._options import Output, OutputOption, PlotOption, ResultsOption
from treadle.errors import UserError
from treadle_lab.cli._experiments import note_seeds, publish, seeds_option, simulating

if TYPE_CHECKING:
    from treadle_lab.models.worker_state import Trace
    from treadle_lab.papers.phoenix.experiment import Comparison, Run, Setup

app = typer.Typer()

SLOTS = 15_000
SEEDS = 10
FIRST_SEED = 11
RELAXED_SLOWDOWN = 1.25
QUICK_STEP = 10
DEFAULT_SYSTEMS = "sparrow,hawk,eagle,sparrow-c,hawk-c,eagle-c,phoenix,one-queue-srpt-c"


@app.command()
def phoenix(
    systems: Annotated[str, typer.Option(help="Systems, separated by commas.")] = DEFAULT_SYSTEMS,
    slots: Annotated[int, typer.Option(min=1, max=1_000_000, help="Workers.")] = SLOTS,
    faster: Annotated[float, typer.Option(min=0.001, max=1000.0, help="Divides arrival times.")] = 1.0,
    relaxed_slowdown: Annotated[
        float,
        typer.Option(min=1.0, max=100.0, help="A task runs this many times as long where its soft constraints fail."),
    ] = RELAXED_SLOWDOWN,
    step: Annotated[int | None, typer.Option(min=1, max=10_000, help="Use every Nth job, and as few workers.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds, every tenth job and worker.")] = False,
    seeds: Annotated[int | None, seeds_option("10, or 2 with --quick")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="The first draw's seed; constraints were calibrated on 1 to 10.")
    ] = FIRST_SEED,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    plot: PlotOption = None,
) -> None:
    """Compare schedulers of worker queues on Google's jobs of 2011, with and without constraints, and the paper."""
    from treadle_lab.papers.phoenix.experiment import calibration, plot_phoenix, results_of, run_systems

    names = _names(systems)
    count = seeds or (2 if quick else SEEDS)
    places = OutputPaths(output=output, out=out, plot=plot)
    places.check()
    setup = _setup(_trace().faster(faster), slots, faster, step or (QUICK_STEP if quick else 1))
    setup = replace(setup, relaxed_slowdown=relaxed_slowdown)
    seeds_ = range(seed, seed + count)
    with simulating(None, what="runs") as progress:
        runs = run_systems(names, setup, seeds_, progress)
    results = results_of(runs, comparisons := _comparisons(runs), setup, calibration())
    publish(results, places, partial(plot_phoenix, runs, setup))
    note_seeds(seeds_)
    if comparisons:
        inside = f"{sum(one.within for one in comparisons)} of {len(comparisons)}"
        note(f"{inside} figures of the original simulator's are within their tolerance")


def _names(systems: str) -> list[str]:
    from treadle_lab.models.workers import SYSTEMS

    given = list(dict.fromkeys(part.strip() for part in systems.split(",") if part.strip()))
    if not given:
        raise UserError(f"--systems: {systems!r} has no value; give some with commas between them")
    for name in given:
        if name not in SYSTEMS:
            raise UserError(f"--systems: {name} is none; give some of {', '.join(SYSTEMS)}")
    return given


def _trace() -> Trace:
    from treadle_lab.harness.data import GOOGLE, given_or_default
    from treadle_lab.models.worker_state import google_trace

    trace = google_trace(given_or_default(None, GOOGLE, note))
    note(
        f"{trace.name}: {len(trace):,} jobs, {len(trace.duration_s):,} tasks; long above a mean of {trace.cutoff_s} s, "
        f"on the last {trace.long_percent:g} % of workers"
    )
    return trace


def _setup(jobs: Trace, slots: int, faster: float, step: int) -> Setup:
    """Return the setup of runs with generated constraints."""
    from treadle_lab.papers.phoenix.constraints import made_for
    from treadle_lab.papers.phoenix.experiment import SUPPLY, Setup

    jobs, slots = jobs.every(step), max(1, slots // step)
    return Setup(jobs, slots, faster, lambda seed: made_for(jobs, slots, SUPPLY, seed))


def _comparisons(runs: list[Run]) -> list[Comparison]:
    from treadle_lab.harness.data import EAGLE, find_data
    from treadle_lab.papers.phoenix.experiment import compare, read_reference

    place = find_data(EAGLE)
    return [] if place is None else compare(runs, read_reference(place))

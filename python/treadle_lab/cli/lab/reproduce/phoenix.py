"""`treadle lab reproduce phoenix`: compare probes, worker queues and constraints: Sparrow, Hawk, Eagle and Phoenix."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from treadle.cli._console import OutputPaths, note
from treadle.cli._options import Output, OutputOption, PlotOption, ResultsOption
from treadle_lab.cli._experiments import chosen, note_seeds, publish, seeds_option, simulating

app = typer.Typer()

SLOTS = 15_000
SEEDS = 10
FIRST_SEED = 11
QUICK_STEP = 10
DEFAULT_SYSTEMS = "sparrow,hawk,eagle,sparrow-c,hawk-c,eagle-c,phoenix,one-queue-srpt-c"


@app.command()
def phoenix(
    systems: Annotated[str, typer.Option(help="Systems, separated by commas.")] = DEFAULT_SYSTEMS,
    slots: Annotated[int, typer.Option(min=1, max=1_000_000, help="Workers.")] = SLOTS,
    faster: Annotated[float, typer.Option(min=0.001, max=1000.0, help="Divides arrival times.")] = 1.0,
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
    from treadle_lab.harness.data import EAGLE, GOOGLE, find_data, given_or_default
    from treadle_lab.models.worker_state import google_trace
    from treadle_lab.models.workers import SYSTEMS
    from treadle_lab.papers.phoenix import experiment

    names = chosen([name.strip() for name in systems.split(",")], SYSTEMS, option="--systems")
    places = OutputPaths(output=output, out=out, plot=plot).check()
    trace = google_trace(given_or_default(None, GOOGLE, note))
    note(
        f"{trace.name}: {len(trace):,} jobs, {len(trace.duration_s):,} tasks; long above a mean of {trace.cutoff_s} s, "
        f"on the last {trace.long_percent:g} % of workers"
    )
    every = step or (QUICK_STEP if quick else 1)
    jobs, workers = trace.faster(faster).every(every), max(1, slots // every)
    setup = experiment.Setup(jobs, workers, faster, partial(experiment.made_for, jobs, workers))
    draws = range(seed, seed + (seeds or (2 if quick else SEEDS)))
    with simulating(None, what="runs") as progress:
        runs = experiment.run_systems(names, setup, draws, progress)
    original = find_data(EAGLE)
    comparisons = [] if original is None else experiment.compare(runs, experiment.read_reference(original))
    results = experiment.results_of(runs, comparisons, setup)
    publish(results, places, partial(experiment.plot_phoenix, runs, setup))
    note_seeds(draws)
    if comparisons:
        inside = f"{sum(one.within for one in comparisons)} of {len(comparisons)}"
        note(f"{inside} figures of the original simulator's are within their tolerance")

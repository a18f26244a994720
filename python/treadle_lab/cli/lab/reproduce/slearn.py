"""`treadle lab reproduce slearn`: run SLearn's evaluation on Google's trace of 2011."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import note
from treadle.cli._options import Output, OutputOption, PlotOption, ProcessesOption, ResultsOption
from treadle_lab.cli._experiments import (
    CacheOption,
    ExperimentPaths,
    LogsOption,
    OnOption,
    SeedOption,
    SimulatorKind,
    chosen,
    note_seeds,
    play_draws,
    publish,
    refuse,
    seeds_option,
    simulating,
)
from treadle_lab.papers.slearn.trace import DAGS, JOBS, LOAD, NODES, OF_DAGS, OF_JOBS

if TYPE_CHECKING:
    from treadle_lab.papers.slearn.schemes import Scheme
    from treadle_lab.papers.slearn.sls import WideDraw
    from treadle_lab.papers.slearn.trace import Source
    from treadle_lab.sls.play import Player

app = typer.Typer()

OURS = "slearn"
SEEDS = 3


@app.command()
def slearn(
    *,
    trace: Annotated[
        Path | None,
        typer.Option(help="The folder of the extract of Google's trace of 2011; default: the checkout's data folder."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One seed; with --on sls 200 jobs.")] = False,
    seeds: Annotated[int | None, seeds_option("3, or 1 with --quick")] = None,
    seed: SeedOption = 1,
    jobs: Annotated[
        int | None,
        typer.Option(min=2, max=100_000, help=f"Jobs of a draw; default: {JOBS}, with --dags {DAGS}."),
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=1, max=100_000, help="Nodes of the cluster; each runs one task at a time.")
    ] = NODES,
    train_once: Annotated[
        bool, typer.Option("--train-once", help="History learns from the first part of the trace alone.")
    ] = False,
    load: Annotated[float, typer.Option(min=0.1, max=5.0, help="Mean load of the windows.")] = LOAD,
    dags: Annotated[
        bool, typer.Option("--dags", help="SLearn-DAG: jobs are chains of two to five stages, each a job of the trace.")
    ] = False,
    model: Annotated[
        bool, typer.Option("--model", help="A plain model of the paper's scheduler in place of the engine: far faster.")
    ] = False,
    scheme: Annotated[
        list[str] | None, typer.Option(help="This scheme and slearn alone; may be given several times.")
    ] = None,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
    on: OnOption = SimulatorKind.SIMULATOR,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    plot: PlotOption = None,
    place: LogsOption = None,
) -> None:
    """Run SLearn on Google's jobs of 2011: against 3Sigma and Point-Est, LAS, FIFO and Oracle."""
    from treadle_lab.harness.data import GOOGLE, given_or_default
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.papers.slearn.experiment import plot_slearn, results_of, run_draws  # only here: it imports numba
    from treadle_lab.papers.slearn.trace import Draws, Source

    places = ExperimentPaths(output=output, out=out, plot=plot, logs=place, cache=cache).check()
    wanted = range(seed, seed + (seeds or (1 if quick else SEEDS)))
    if on is SimulatorKind.SLS:
        refuse("is of simulations, not of --on sls", dags=dags, model=model, plot=plot, processes=processes)
        folder = given_or_default(trace, GOOGLE, note)
        draws = Draws(folder, jobs or (QUICK_JOBS if quick else JOBS), nodes, train_once, dags, load)
        _on_sls(Source(draws), wanted, nodes, scheme, places)
        return
    refuse("is of --on sls", folder=place)
    schemes = _schemes(scheme, dags=dags, model=model)
    folder = given_or_default(trace, GOOGLE, note)
    # a draw takes longer than the model: one process makes it once
    settings = RunSettings(cache, processes or int(model))
    draws = Draws(folder, jobs or (DAGS if dags else JOBS), nodes, train_once, dags, load)
    compiled = [] if model else [schemes[0].settings(0)]
    with simulating(cache, compiled, "reading the trace, simulating") as progress:
        outcomes = run_draws(draws, wanted, schemes, model=model, settings=settings, progress=progress)
    results = results_of(outcomes, OF_DAGS if dags else OF_JOBS, load)
    note_seeds(wanted, f"{results.facts['wall_s']:.0f} s of simulation")
    publish(results, places, partial(plot_slearn, outcomes, results))


QUICK_JOBS = 200
"""Jobs in a quick draw on the testbed: too few for a queue to form, so that all schedulers perform about the same."""


def _schemes(wanted: list[str] | None, *, dags: bool, model: bool) -> tuple[Scheme, ...]:
    """Return the schemes to compare: the paper's schemes, and the policies that come with Treadle.

    The paper's SLearn with single additions is included only if ``wanted`` names schemes.
    """
    from treadle_lab.papers.slearn.schemes import DAG_SCHEMES, SCHEMES, shipped, shipped_apart

    schemes = DAG_SCHEMES if dags else SCHEMES
    if not dags and not model:
        schemes = (*schemes, *shipped(), *(shipped_apart() if wanted else ()))
    names = chosen(wanted, [each.name for each in schemes], OURS)
    return tuple(each for each in schemes if each.name in names)


def _on_sls(source: Source, seeds: range, nodes: int, schemes: list[str] | None, places: ExperimentPaths) -> None:
    """Play draws on the testbed."""
    from treadle_lab.papers.slearn.sls import NAMES, results_of, run_draw

    wanted = chosen(schemes, NAMES, OURS)

    def play(turn: int, seed: int, player: Player) -> WideDraw:
        player.say(f"seed {seed}: reading the trace")
        return run_draw(source.draw(seed), nodes, wanted, turn, player)

    play_draws("papers.slearn", seeds, places, play, lambda draws: results_of(draws, nodes))

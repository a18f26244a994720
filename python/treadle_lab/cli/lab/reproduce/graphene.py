"""`treadle lab reproduce graphene`: run Graphene's evaluation in the simulator."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import note
from treadle.cli._options import Output, OutputOption, PlotOption, ProcessesOption, ResultsOption
from treadle.errors import UserError
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
from treadle_lab.papers.graphene.experiment import Part

if TYPE_CHECKING:
    from treadle_lab.papers.graphene.sls import Size

app = typer.Typer()

SEEDS = 5
"""Without --quick, if none are asked for."""


@app.command()
def graphene(
    *,
    tpch: Annotated[
        Path | None,
        typer.Option(help="The folder of TPC-H's measured DAGs (edges.csv, profiles.csv); default: the checkout's."),
    ] = None,
    generated: Annotated[bool, typer.Option("--generated", help="Generated DAGs alone, none of TPC-H's.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer jobs.")] = False,
    seeds: Annotated[int | None, seeds_option("5, or 1 with --quick and on sls")] = None,
    seed: SeedOption = 1,
    jobs: Annotated[
        int | None,
        typer.Option(min=2, max=10_000, help="Jobs of a draw; 40, or 12 with --quick; on sls 48, up to 500."),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(min=0.01, max=100, help="Offered load, as a fraction of the cluster; 0.6, on sls 0.8."),
    ] = None,
    part: Annotated[list[Part] | None, typer.Option(help="Run this part alone.")] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(help="This scheme and bfs alone; several times."),
    ] = None,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
    on: OnOption = SimulatorKind.SIMULATOR,
    nodes: Annotated[int | None, typer.Option(min=1, max=1000, help="Nodes of the cluster of --on sls; 16.")] = None,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    plot: PlotOption = None,
    place: LogsOption = None,
) -> None:
    """Compare Graphene with breadth first, critical path and Tetris: Poisson arrivals, and batches."""
    from treadle.planner.graphene import warm_up as warm_up_planner
    from treadle_lab.harness.data import TPCH, given_or_default
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.papers.graphene.experiment import GRAPHENE, SCHEMES, Sizes, plot_graphene, results_of, run_seeds

    places = ExperimentPaths(output=output, out=out, plot=plot, logs=place, cache=cache).check()
    draws = range(seed, seed + (seeds or (1 if quick or on is SimulatorKind.SLS else SEEDS)))
    if on is SimulatorKind.SLS:
        refuse("is of simulations, not of --on sls", tpch=tpch, part=part, plot=plot, processes=processes)
        _on_sls(_size_on_sls(jobs, nodes, load, quick), draws, scheme, places)
        return
    refuse("is of --on sls", folder=place, nodes=nodes)
    if generated:
        refuse("--generated leaves TPC-H's DAGs out", tpch=tpch)
    folder = None if generated else given_or_default(tpch, TPCH, note)
    schemes = frozenset(chosen(scheme, [each.name for each in SCHEMES]))
    sizes = Sizes(jobs or (12 if quick else 40), load or 0.6, frozenset(part or Part), schemes)
    with simulating(cache, [GRAPHENE.settings(0)]) as progress:
        warm_up_planner()
        outcomes = run_seeds(folder, sizes, draws, RunSettings(cache, processes), progress)
    results = results_of(outcomes)
    note_seeds(draws, f"{results.facts['wall_s']:.0f} s of simulation")
    publish(results, places, partial(plot_graphene, outcomes))


def _size_on_sls(jobs: int | None, nodes: int | None, load: float | None, quick: bool) -> Size:
    from treadle_lab.papers.graphene.sls import JOBS_MAX, QUICK, Size

    if jobs is not None and jobs > JOBS_MAX:
        raise UserError(f"--jobs: {jobs}; with --on sls at most {JOBS_MAX}")
    usual = QUICK if quick else Size()
    return Size(jobs or usual.jobs, nodes or usual.nodes, load or usual.load)


def _on_sls(size: Size, seeds: range, wanted: list[str] | None, places: ExperimentPaths) -> None:
    """Play draws on the testbed."""
    from treadle_lab.papers.graphene.sls import SCHEMES, STOCK, results_of, run_draw

    names = chosen(wanted, [scheme.name for scheme in SCHEMES], STOCK)
    play_draws(
        "papers.graphene",
        seeds,
        places,
        lambda turn, seed, player: run_draw(seed, size, names, turn, player),
        lambda draws: results_of(draws, size),
    )

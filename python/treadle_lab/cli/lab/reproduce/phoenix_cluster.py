"""`treadle lab reproduce phoenix-cluster`: run requests that only some nodes can serve, on a real ResourceManager."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.cli._options import Output, OutputOption, ResultsOption
from treadle_lab.cli._experiments import CacheOption, ExperimentPaths, LogsOption, SeedOption, play_draws, seeds_option

app = typer.Typer()

SEEDS = 10


@app.command()
def phoenix_cluster(
    seed: SeedOption = 1,
    seeds: Annotated[int | None, seeds_option("10, or 1 with --quick")] = None,
    nodes: Annotated[int, typer.Option(min=10, max=5_000, help="Nodes of the cluster.")] = 200,
    quick: Annotated[bool, typer.Option("--quick", help="One draw of few jobs: shows that it works.")] = False,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    folder: LogsOption = None,
    cache: CacheOption = None,
) -> None:
    """Run short jobs that a tenth of the nodes can serve, and long ones, under four schedulers on simulated nodes."""
    from treadle_lab.papers.phoenix.sls import Size, results_of, run_draw

    places = ExperimentPaths(output=output, out=out, logs=folder, cache=cache).check()
    size = Size(nodes, short_jobs=10, long_jobs=1) if quick else Size(nodes)
    play_draws(
        "papers.phoenix",
        range(seed, seed + (seeds or (1 if quick else SEEDS))),
        places,
        lambda turn, one, player: run_draw(one, size, turn, player),
        lambda found: results_of(found, size),
    )

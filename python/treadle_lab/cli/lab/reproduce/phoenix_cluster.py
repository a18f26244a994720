"""`treadle lab reproduce phoenix-cluster`: run requests that only some nodes can serve, on a real ResourceManager."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._options import ResultsOption, check_results
from treadle_lab.cli._experiments import (
    CacheOption,
    LogsOption,
    OutputPaths,
    SeedOption,
    play_draws,
)

app = typer.Typer()


@app.command()
def phoenix_cluster(
    seed: SeedOption = 1,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Draws of jobs, each under every scheduler.")] = 10,
    nodes: Annotated[int, typer.Option(min=10, max=5_000, help="Of the cluster.")] = 200,
    quick: Annotated[bool, typer.Option("--quick", help="One round of few jobs: shows that it works.")] = False,
    out: ResultsOption = None,
    folder: LogsOption = None,
    cache: CacheOption = None,
) -> None:
    """Run short jobs that a tenth of the nodes can serve, and long ones, under four schedulers on simulated nodes."""
    from treadle_lab.papers.phoenix import sls as testbed

    check_results(out, None)
    size = testbed.Size(nodes)
    settings = testbed.settings_of(size)
    settings = replace(settings, short_jobs=10, long_jobs=1) if quick else settings
    play_draws(
        "phoenix",
        range(seed, seed + (1 if quick else rounds)),
        OutputPaths(folder, cache, out),
        lambda turn, one, player: testbed.run_draw(one, settings, size, turn, player),
        lambda found: testbed.results_of(found, settings),
        console_for_tables(140),
    )

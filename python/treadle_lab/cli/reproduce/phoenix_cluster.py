"""`treadle reproduce phoenix-cluster`: asks that only some nodes can serve, on a real ResourceManager."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._options import check_results, write_json
from treadle_lab.cli._experiments import CacheOption, playing, show_shortfalls

app = typer.Typer()


@app.command()
def phoenix_cluster(
    seed: Annotated[int, typer.Option(min=0, help="Of the first round's jobs; further rounds take the next ones.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Draws of jobs, each under every scheduler.")] = 10,
    nodes: Annotated[int, typer.Option(min=10, max=5_000, help="Of the cluster.")] = 200,
    quick: Annotated[bool, typer.Option("--quick", help="One round of few jobs: shows that it works.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for a plot of completion times.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Of logs; default: build/reproduce-phoenix-sls.")] = None,
    cache: CacheOption = None,
) -> None:
    """Short jobs that a tenth of the nodes can serve, beside long ones, under four schedulers on simulated nodes."""
    from treadle_lab.papers.phoenix import sls as testbed
    from treadle_lab.sls.play import in_turn

    check_results(json_file, plot)
    rounds = 1 if quick else rounds
    console = console_for_tables(140)
    found: list[testbed.Round] = []
    size = testbed.Size(nodes)
    settings = testbed.settings_of(size)
    settings = replace(settings, short_jobs=10, long_jobs=1) if quick else settings
    with playing(console, "phoenix", folder, cache, asdict(settings), nodes) as player:
        for turn, one in enumerate(range(seed, seed + rounds)):
            for scheme in in_turn(testbed.schemes(), turn):
                found.append(testbed.run_scheme(scheme, one, settings, size, player))
                if json_file is not None:
                    write_json(json_file, testbed.document(found, settings))
    console.print(testbed.table(found))
    for text, got in testbed.reached(found).items():
        console.print(f"{text}: {got}", highlight=False)
    if plot is not None:
        testbed.plot_completions(found, plot / "phoenix-cluster.png")
    show_shortfalls(testbed.shortfalls(found), console)

"""`treadle reproduce phoenix-cluster`: asks that only some nodes can serve, on real ResourceManagers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._results import check_results, write_json
from treadle.lab.minicluster.runtime import build_folder

app = typer.Typer()


@app.command()
def phoenix_cluster(
    seed: Annotated[int, typer.Option(min=0, help="Of the first round's jobs; further rounds take the next ones.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Draws of jobs, each under every scheduler.")] = 10,
    quick: Annotated[bool, typer.Option("--quick", help="One round of few jobs: shows that it works.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for a plot of completion times.")] = None,
    folder: Annotated[Path | None, typer.Option(help="The clusters' folder; default: build/reproduce-phoenix.")] = None,
) -> None:
    """Short jobs that two of six nodes can serve, beside long ones, under four schedulers in turns."""
    from treadle.lab.harness.statistics import check_intervals
    from treadle.lab.minicluster.progress import saying
    from treadle.lab.minicluster.readiness import terminable
    from treadle.lab.reproduce.phoenix_cluster.experiment import Round, run_scheme, schemes
    from treadle.lab.reproduce.phoenix_cluster.jobs import KINDS, QUICK, Settings, arrivals
    from treadle.lab.reproduce.phoenix_cluster.report import document, plot_completions, reached, shortfalls, table

    check_results(json_file, plot)
    rounds = 1 if quick else rounds
    check_intervals("--rounds", rounds)
    console = console_for_tables(140)
    settings = QUICK if quick else Settings()
    place = (folder or build_folder() / "reproduce-phoenix").resolve()
    taking_turns, found = schemes(), list[Round]()
    with terminable(), saying(console) as say:
        for turn, one in enumerate(range(seed, seed + rounds)):
            drawn, kind = arrivals(one, settings), KINDS[turn % len(KINDS)]
            # whoever comes first finds the machine's caches cold: each does in turn
            first = turn % len(taking_turns)
            for scheme in (*taking_turns[first:], *taking_turns[:first]):
                found.append(run_scheme(scheme, drawn, one, kind, place, say))
                if json_file is not None:
                    write_json(json_file, document(found, settings))
    console.print(table(found))
    for text, got in reached(found).items():
        console.print(f"{text}: {got}", highlight=False)
    if plot is not None:
        plot_completions(found, plot / "phoenix-cluster.png")
    for text in shortfalls(found):
        console.print(text, style="red", soft_wrap=True, highlight=False)

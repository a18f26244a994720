"""`treadle reproduce graphene-cluster`: Graphene with unmodified Tez on real ResourceManagers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._isolation import isolate_if_possible
from treadle.cli._results import check_results, write_json
from treadle.lab.minicluster.runtime import build_folder

app = typer.Typer()


@app.command()
def graphene_cluster(
    seed: Annotated[int, typer.Option(min=0, help="Of the first draw of DAGs; further rounds take the next ones.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Draws of DAGs, each under every scheme.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, max=8, help="DAGs of a draw.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for a plot of completion times.")] = None,
    folder: Annotated[Path | None, typer.Option(help="The cluster's folder; else build/reproduce-graphene.")] = None,
) -> None:
    """Graphene on a real ResourceManager: sleeping Tez DAGs with and without plans and scoring, in turns."""
    from treadle.lab.harness.signals import terminable
    from treadle.lab.minicluster.progress import saying
    from treadle.lab.reproduce.graphene_cluster.experiment import SCHEMES, Round, run_rounds
    from treadle.lab.reproduce.graphene_cluster.jobs import DagSettings, draw
    from treadle.lab.reproduce.graphene_cluster.report import document, shortfalls, table

    console = console_for_tables(140)
    settings = DagSettings(jobs=jobs)
    draws = {one: draw(one, settings) for one in range(seed, seed + rounds)}
    check_results(json_file, plot)
    isolate_if_possible()
    place = (folder or build_folder() / "reproduce-graphene").resolve()
    found: list[Round] = []
    with terminable(), saying(console) as say:
        for one in run_rounds(draws, settings, place, say):
            found.append(one)
            if json_file is not None and len(found) % len(SCHEMES) == 0:
                write_json(json_file, document(found, settings))
    console.print(table(found))
    if plot is not None:
        from treadle.lab.reproduce.graphene_cluster.report import plot_completions  # only here: matplotlib is an extra

        plot_completions(found, plot / "graphene-cluster.png")
    for text in shortfalls(found):
        console.print(text, style="red", soft_wrap=True, highlight=False)

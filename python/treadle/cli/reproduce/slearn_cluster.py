"""`treadle reproduce slearn-cluster`: SLearn on real ResourceManagers, against the stock scheduler."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._console import say as say_line
from treadle.cli._isolation import isolate_if_possible
from treadle.cli._results import check_results, write_json
from treadle.lab.minicluster.runtime import build_folder

app = typer.Typer()


@app.command()
def slearn_cluster(
    sample: Annotated[
        Path | None,
        typer.Option(help="A file of SWIM's samples of Facebook's clusters of 2009; default: the first, of data."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the first draw of jobs; further rounds take the next ones.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Draws of jobs, each under every scheduler.")] = 3,
    jobs: Annotated[int, typer.Option(min=2, max=1000, help="Of a draw.")] = 16,
    load: Annotated[float, typer.Option(min=0.05, max=20, help="Mean load of the cluster by the tasks' time.")] = 1.0,
    words_share: Annotated[
        float, typer.Option(min=0, max=1, help="Of the jobs: those that count words in skewed files; the others sleep.")
    ] = 0.5,
    masters_starting: Annotated[
        int, typer.Option(min=0, max=1000, help="Application masters that start at a time under slearn; 0: any number.")
    ] = 2,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="In the simulator, where any number of JVMs start as fast as one.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for a plot of completion times.")] = None,
    folder: Annotated[Path | None, typer.Option(help="The clusters' folder; default: build/reproduce-slearn.")] = None,
) -> None:
    """SLearn on a real ResourceManager with MapReduce jobs, against stock FIFO and fair ordering, in turns."""
    from treadle.lab.harness.data import FACEBOOK, given_or_found
    from treadle.lab.harness.signals import terminable
    from treadle.lab.minicluster.progress import saying
    from treadle.lab.reproduce.slearn_cluster.experiment import SCHEMES, Round, Settings, arrivals, run_scheme
    from treadle.lab.reproduce.slearn_cluster.report import document, shortfalls, table
    from treadle.lab.reproduce.slearn_cluster.simulated import run_simulated

    check_results(json_file, plot)
    if not simulated:
        isolate_if_possible()
    console = console_for_tables(140)
    settings = Settings(jobs=jobs, load=load, words_share=words_share, masters_starting=masters_starting)
    jobs_file = given_or_found(sample, FACEBOOK, partial(say_line, console))
    draws = {one: arrivals(jobs_file, one, settings) for one in range(seed, seed + rounds)}
    place = (folder or build_folder() / "reproduce-slearn").resolve()
    found: list[Round] = []
    with terminable(), saying(console) as say:
        for turn, (one, drawn) in enumerate(draws.items()):
            # the first scheme finds the machine's caches cold: each is first in turn
            order = (*SCHEMES[turn % len(SCHEMES) :], *SCHEMES[: turn % len(SCHEMES)])
            if simulated:
                say(f"seed {one}")
                found += [run_simulated(scheme.name, drawn, one, settings) for scheme in order]
            else:
                found += [run_scheme(scheme, drawn, one, settings, place, say) for scheme in order]
            if json_file is not None:
                write_json(json_file, document(found, settings, jobs_file))
    console.print(table(found))
    if plot is not None:
        from treadle.lab.reproduce.slearn_cluster.report import plot_completions  # only here: matplotlib is an extra

        plot_completions(found, plot / "slearn-cluster.png")
    for text in shortfalls(found):
        console.print(text, style="red", soft_wrap=True, highlight=False)

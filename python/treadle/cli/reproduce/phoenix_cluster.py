"""`treadle reproduce phoenix-cluster`: asks that only some nodes can serve, on real ResourceManagers."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._isolation import isolate_if_possible
from treadle.cli._results import check_results, write_json
from treadle.cli._runs import CacheOption, going_on
from treadle.cli._testbed import ClusterKind, setting_of_testbed
from treadle.errors import UserError
from treadle.lab.minicluster.runtime import build_folder

app = typer.Typer()


@app.command()
def phoenix_cluster(
    seed: Annotated[int, typer.Option(min=0, help="Of the first round's jobs; further rounds take the next ones.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Draws of jobs, each under every scheduler.")] = 10,
    on: Annotated[
        ClusterKind, typer.Option("--on", help="Real daemons, or Hadoop's load simulator: many nodes, no JVM starts.")
    ] = ClusterKind.MINICLUSTER,
    nodes: Annotated[
        int | None, typer.Option(min=10, max=5_000, help="Of the cluster, with --on sls; default: 200.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One round of few jobs: shows that it works.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for a plot of completion times.")] = None,
    folder: Annotated[Path | None, typer.Option(help="The clusters' folder; default: build/reproduce-phoenix.")] = None,
    cache: CacheOption = None,
) -> None:
    """Short jobs that two of six nodes, or a tenth of 200, can serve, beside long ones, under four schedulers."""
    from treadle.lab.harness.signals import terminable
    from treadle.lab.minicluster.progress import Say, saying
    from treadle.lab.reproduce.phoenix_cluster import testbed
    from treadle.lab.reproduce.phoenix_cluster.experiment import Round, Scheme, run_scheme, schemes
    from treadle.lab.reproduce.phoenix_cluster.jobs import KINDS, QUICK, Settings, arrivals
    from treadle.lab.reproduce.phoenix_cluster.kept_rounds import KeptRounds
    from treadle.lab.reproduce.phoenix_cluster.report import document, plot_completions, reached, shortfalls, table

    check_results(json_file, plot)
    if nodes is not None and on is not ClusterKind.SLS:
        raise UserError("--nodes is for --on sls; the mini cluster has six")
    rounds = 1 if quick else rounds
    console = console_for_tables(140)
    taking_turns, found = schemes(), list[Round]()
    if on is ClusterKind.SLS:
        place = (folder or build_folder() / "reproduce-phoenix-sls").resolve()
        size = testbed.Size(nodes or testbed.Size().nodes)
        settings = testbed.settings_of(size)
        settings = replace(settings, short_jobs=10, long_jobs=1) if quick else settings
        setting = setting_of_testbed()
    else:
        isolate_if_possible()
        place = (folder or build_folder() / "reproduce-phoenix").resolve()
        settings = QUICK if quick else Settings()

    def run(scheme: Scheme, one: int, turn: int, say: Say) -> Round:
        if on is ClusterKind.SLS:
            return testbed.run_scheme(scheme, one, settings, size, setting, place / f"{one}-{scheme.name}", say)
        return run_scheme(scheme, arrivals(one, settings), one, KINDS[turn % len(KINDS)], place, say)

    kept = KeptRounds(cache, on, asdict(settings), nodes)
    with going_on(console, cache), terminable(), saying(console) as say:
        for turn, one in enumerate(range(seed, seed + rounds)):
            # the first scheme finds the machine's caches cold: each is first in turn
            first = turn % len(taking_turns)
            for scheme in (*taking_turns[first:], *taking_turns[:first]):
                kind = "" if on is ClusterKind.SLS else KINDS[turn % len(KINDS)]
                which = (asdict(scheme), one, kind, first)
                found.append(kept.get_or_run(partial(run, scheme, one, turn, say), *which))
                if json_file is not None:
                    write_json(json_file, document(found, settings))
    console.print(table(found))
    for text, got in reached(found).items():
        console.print(f"{text}: {got}", highlight=False)
    if plot is not None:
        plot_completions(found, plot / "phoenix-cluster.png")
    for text in shortfalls(found):
        console.print(text, style="red", soft_wrap=True, highlight=False)

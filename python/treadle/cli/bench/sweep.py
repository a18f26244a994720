"""`treadle bench sweep`: its options, and what it shows."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables, say
from treadle.cli._isolation import isolate_if_possible
from treadle.cli._results import check_results, write_json
from treadle.errors import UserError

app = typer.Typer()


@app.command()
def sweep_command(
    runs: Annotated[int, typer.Option(min=10, max=100_000, help="Simulations, half of them under each policy.")] = 1000,
    executors: Annotated[int, typer.Option(min=2, max=64, help="Of Spark, one core each; one is killed.")] = 2,
    folder: Annotated[
        Path | None, typer.Option(help="For the cluster, logs and results, which stay there; else they are removed.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """A sweep on a mini cluster's YARN under Treadle, an executor killed in the middle; then the same on one core.

    The results must be the same bytes. Cluster, Spark and simulations share this machine's cores.
    """
    from treadle.lab.bench.sweep_run import SweepFigures, run_sweep
    from treadle.lab.harness.signals import terminable
    from treadle.lab.minicluster.progress import saying
    from treadle.sweep.spark import check_spark

    if runs % 2:
        raise UserError(f"--runs {runs}: must be even: each seed runs under two policies")
    check_results(json_file, None)
    check_spark()
    isolate_if_possible()
    place = Path(tempfile.mkdtemp(prefix="treadle-sweep-")) if folder is None else folder.resolve()
    console = console_for_tables()
    with terminable(), saying(console) as tell:
        found: SweepFigures = run_sweep(runs, executors, place, tell)
    table = Table(title=f"{found.runs} runs", title_justify="left")
    for name in ("", "whole command (s)", "first to last result (s)", "runs a second", "cores used"):
        table.add_column(name, justify="right" if name else "left")
    for name, side in ((f"YARN, {found.executors} executors", found.yarn), ("one core", found.one_core)):
        rate = (found.runs - 1) / side.runs_s
        table.add_row(name, f"{side.wall_s:.0f}", f"{side.runs_s:.1f}", f"{rate:.2f}", f"{side.cores:.2f}")
    console.print(table)
    say(console, f"speed-up over one core, from the first result to the last: {found.speed_up:.2f}")
    say(
        console,
        f"an executor was killed after {found.kept_at_kill} runs; {found.executors_seen} executors were seen, Treadle "
        f"placed {found.containers_committed} containers; {found.failed} runs failed",
    )
    if json_file is not None:
        write_json(json_file, found.as_json())
    if not found.nothing_lost:
        say(console, "The results are not those of one core." if not found.same_bytes else "Runs failed.", "red")
        raise typer.Exit(1)
    say(console, "nothing is lost: the results are the bytes that one core gives")
    if folder is None:
        shutil.rmtree(place)

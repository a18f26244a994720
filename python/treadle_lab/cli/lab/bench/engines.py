"""`treadle lab bench engines`: measure what copies of an engine gain."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, progress_console
from treadle.cli._options import ResultsOption, check_results, write_json
from treadle_lab.bench import engines
from treadle_lab.cli.lab.bench.cluster import RunProgress, Seen, heap_mb_for, stall_allowed_s
from treadle_lab.rows import show
from treadle_lab.sls.load import class_path
from treadle_lab.sls.run import Setting

app = typer.Typer()


@app.command()
def engines_command(
    out: ResultsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small loads.")] = False,
    nodes: Annotated[int, typer.Option(help="Nodes of 10 GB and 10 cores; 0: 1,000, with --quick 200.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the load.")] = 1,
    folder: Annotated[
        Path | None, typer.Option(help="A folder that keeps configuration, logs and measurements.")
    ] = None,
) -> None:
    """Measure what two and four copies of an engine gain over one, where decisions are fast and where they take long.

    Hadoop's load simulator with a real ResourceManager and real sidecars.
    """
    check_results(out, None)
    plan = engines.plan(nodes or (200 if quick else 1_000), quick, seed)
    # last, since it may build for a minute
    setting = Setting(plan.span, class_path(), heap_mb_for(plan.span, 0), stall_allowed_s(180.0, plan.span))
    work = Path(tempfile.mkdtemp(prefix="treadle-bench-")) if folder is None else folder.absolute()
    console = Console(stderr=True)
    with progress_console().status("starting") as status:
        found = engines.run_copies(plan, setting, work, RunProgress(status, _done).show)
    rows, tables = [row for row in found if row.failure is None], console_for_tables(140)
    show(engines.copies_table(rows), tables)
    for text in engines.shortfalls(rows):
        tables.print(text, style="red", highlight=False)
    if out is not None:
        write_json(out, engines.copies_report(plan, found))
        console.print(f"Results: {out}")
    failed = [row for row in found if row.failure]
    for row in failed:
        console.print(f"[red]failed[/]: {row.name}: {row.failure}", highlight=False)
    if failed:
        raise typer.Exit(1)
    if folder is None:
        shutil.rmtree(work)


def _done(seen: Seen) -> str:
    return f"{seen.get('attempts_ended', 0):,} jobs ended"

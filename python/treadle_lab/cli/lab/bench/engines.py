"""`treadle lab bench engines`: measure what copies of an engine gain."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import OutputPaths, note, progress_console
from treadle.cli._options import Output, OutputOption, ResultsOption
from treadle_lab.bench import engines
from treadle_lab.cli._experiments import FolderOption, SeedOption
from treadle_lab.cli.lab.bench.cluster import Seen, heap_mb_for, progress_of, stall_allowed_s
from treadle_lab.rows import show
from treadle_lab.sls.run import Setting, class_path

app = typer.Typer()


@app.command()
def engines_command(
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small loads.")] = False,
    nodes: Annotated[int, typer.Option(help="Nodes of 10 GB and 10 cores; 0: 1,000, with --quick 200.")] = 0,
    seed: SeedOption = 1,
    folder: FolderOption = None,
) -> None:
    """Measure what two and four copies of an engine gain over one, where decisions are fast and where they take long.

    Hadoop's load simulator with a real ResourceManager and real sidecars.
    """
    places = OutputPaths(output=output, out=out).check()
    loads = engines.loads(nodes or (200 if quick else 1_000), quick, seed)
    # last, since it may build for a minute
    setting = Setting(span := loads[engines.SPAN], class_path(), heap_mb_for(span), stall_allowed_s(180.0, span))
    work = Path(tempfile.mkdtemp(prefix="treadle-bench-")) if folder is None else folder.absolute()
    with progress_console().status("starting") as status:
        found = engines.run_copies(loads, setting, work, progress_of(status, _done))
    places.publish(engines.copies_report(loads, found), partial(show, engines.copies_table(found)))
    failed = [row for row in found if row["failure"] is not None]
    for row in failed:
        note(f"failed: {row['load']}-{row['copies']}: {row['failure']}", "red")
    if failed:
        raise typer.Exit(1)
    if folder is None:
        shutil.rmtree(work)


def _done(seen: Seen) -> str:
    return f"{seen.get('attempts_ended', 0):,} jobs ended"

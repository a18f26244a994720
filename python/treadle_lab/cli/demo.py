"""`treadle demo` (In a checkout 2): run MapReduce, Tez and Spark jobs on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import OutputPaths, console_for_notes, steps
from treadle.cli._options import Output, OutputOption, check_writable
from treadle_lab.cli._experiments import isolate_if_possible
from treadle_lab.demo.run import run_demo, shown_on, spark_home
from treadle_lab.minicluster.processes import terminable
from treadle_lab.minicluster.settings import build_folder

app = typer.Typer()


@app.command()
def demo(
    folder: Annotated[Path | None, typer.Option(help="A folder for the cluster; default: build/demo.")] = None,
    output: OutputOption = Output.TABLE,
    out: Annotated[Path | None, typer.Option(help="A file for the results; default: build/demo.json.")] = None,
    engines: Annotated[
        bool, typer.Option("--engines", help="Two engines with different policies instead: about two minutes.")
    ] = False,
) -> None:
    """Run unmodified MapReduce, Tez and Spark jobs on a real cluster scheduled by Python."""
    if not engines:
        spark_home()  # better missing now than in a minute
    target = out or build_folder() / "demo.json"
    check_writable("--out", target)
    isolate_if_possible()
    with terminable(), steps() as say:
        place = (folder or build_folder() / "demo").resolve()
        report = run_demo(place, say, shown_on(console_for_notes()), engines=engines)
    OutputPaths(output=output, out=target).publish(report.as_json(), report.show)
    if report.faults:
        raise typer.Exit(1)

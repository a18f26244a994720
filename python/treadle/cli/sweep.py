"""`treadle sweep` (Evaluate 2): simulate over settings, scenarios and seeds."""

from __future__ import annotations

import os
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._options import (
    Output,
    OutputOption,
    PlotFormatOption,
    PlotOption,
    ProcessesOption,
    ResultsOption,
    TrustOption,
    plot_formats,
)
from treadle.errors import UserError

app = typer.Typer()


class Where(StrEnum):
    """Where runs are run."""

    LOCAL = "local"
    SPARK = "spark"


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP", help="What to run, as YAML: see docs/sweeps.md.")],
    on: Annotated[Where, typer.Option(help="local: processes of this machine; spark: through PySpark.")] = Where.LOCAL,
    processes: ProcessesOption = 0,
    master: Annotated[
        str | None, typer.Option(help="spark: as of spark-submit, such as yarn or local[4]; else what that says.")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="spark: a setting of Spark's.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="A folder for the results of runs; default: SWEEP.runs, next to the sweep.")
    ] = None,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    best: Annotated[Path | None, typer.Option(help="A file for the best setting, as a treadle.yaml.")] = None,
    plot: PlotOption = None,
    plot_format: PlotFormatOption = None,
    trust_code: TrustOption = False,
) -> None:
    """Run simulations over settings of policies and scenarios and over seeds; completed runs are not repeated."""
    from treadle.cli import _sweep  # only here: it imports numba
    from treadle.sweep.spark import Spark

    formats, runs = plot_formats(plot, plot_format), cache or file.with_suffix(".runs")
    if on is Where.LOCAL and (master is not None or conf):
        raise UserError("--master and --conf are for --on spark; add it, or leave them out")
    settings = dict(map(_setting, conf or []))
    places = _sweep.OutputPaths(output=output, out=out, plot=plot, formats=formats, cache=runs, best=best)
    start_spark = partial(Spark, master, settings) if on is Where.SPARK else None
    _sweep.sweep(file, places, processes or os.cpu_count() or 1, start_spark, trust_code=trust_code)


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.startswith("spark."):
        raise UserError(f"--conf: {text!r} is not like spark.executor.memory=2g")
    return name, value

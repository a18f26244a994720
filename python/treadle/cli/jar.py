"""`treadle jar`: the path of the jar for the ResourceManager's class path, or of one for Tez or Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.admin.jars import shim_jar, spark_jar, tez_jar
from treadle.errors import UserError

app = typer.Typer()


@app.command()
def jar(
    tez: Annotated[
        bool, typer.Option("--tez", help="The jar for Tez application masters (docs/tez-plugin.md).")
    ] = False,
    spark: Annotated[bool, typer.Option("--spark", help="The jar for Spark drivers (docs/spark-plugin.md).")] = False,
) -> None:
    """Print the path of the shim's jar, to put on the ResourceManager's class path."""
    if tez and spark:
        raise UserError("--tez and --spark are two jars; ask for one at a time")
    typer.echo(tez_jar() if tez else spark_jar() if spark else shim_jar())

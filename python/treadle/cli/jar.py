"""`treadle jar`: show the path of a jar: the shim, or one for Tez or Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.errors import UserError
from treadle.shipped import requirements_jar, shim_jar, spark_jar, tez_jar

app = typer.Typer()


@app.command()
def jar(
    requirements: Annotated[
        bool,
        typer.Option("--requirements", help="The jar with TreadlePlacementAllocator (docs/requirements.md)."),
    ] = False,
    tez: Annotated[
        bool, typer.Option("--tez", help="The jar for Tez application masters (docs/tez-plugin.md).")
    ] = False,
    spark: Annotated[bool, typer.Option("--spark", help="The jar for Spark drivers (docs/tez-plugin.md).")] = False,
) -> None:
    """Print the path of the shim's jar, to put on the ResourceManager's class path."""
    choices = [(requirements, requirements_jar), (tez, tez_jar), (spark, spark_jar)]
    paths = [path for wanted, path in choices if wanted]
    if len(paths) > 1:
        raise UserError("--requirements, --tez and --spark are jars of their own; ask for one at a time")
    typer.echo(paths[0]() if paths else shim_jar())

"""`treadle jar`: the path of the jar for the ResourceManager's class path, or of the one for Tez."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.shim_jar import shim_jar, tez_jar

app = typer.Typer()


@app.command()
def jar(
    tez: Annotated[
        bool, typer.Option("--tez", help="The jar for Tez application masters (docs/tez-plugin.md).")
    ] = False,
) -> None:
    """Print the path of the shim's jar, to put on the ResourceManager's class path."""
    typer.echo(tez_jar() if tez else shim_jar())

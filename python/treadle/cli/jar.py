"""`treadle jar`: the path of the jar for the ResourceManager's class path."""

from __future__ import annotations

import typer

from treadle.shim_jar import shim_jar

app = typer.Typer()


@app.command()
def jar() -> None:
    """Print the path of the shim's jar, to put on the ResourceManager's class path."""
    typer.echo(shim_jar())

"""`treadle policy`: check a treadle.yaml, or write one with every default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check a treadle.yaml, or write one with every default.", no_args_is_help=True)


@app.callback()
def policy() -> None:
    """Check a treadle.yaml, or write one with every default."""


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The treadle.yaml to check.")]) -> None:
    """Say whether a treadle.yaml is right, and what to change if it is not; nothing is applied."""
    from treadle.sidecar.live import read_live_settings

    settings = read_live_settings(file)
    typer.echo(f"{file}: right: {settings.policy.name()}")


@app.command()
def defaults() -> None:
    """Write a treadle.yaml with every setting, its default and its meaning."""
    from treadle.sidecar.live import live_defaults

    typer.echo(live_defaults(), nl=False)

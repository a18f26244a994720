"""`treadle conf`: show the folder with templates of settings."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def conf() -> None:
    """Print the folder with the lines for yarn-site.xml, a treadle.yaml with every default, and systemd's units."""
    from treadle.shipped import templates

    typer.echo(templates())

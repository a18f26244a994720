"""`treadle conf`: where the templates of an administrator's files are, yarn-site.xml's lines and systemd's units."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def conf() -> None:
    """Print the folder with the lines for yarn-site.xml, a treadle.yaml with every default, and systemd's units."""
    from treadle.shipped import templates

    typer.echo(templates())

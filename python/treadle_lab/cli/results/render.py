"""`treadle results render`: write the tables of the pages, and their summary, from kept results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def render(
    folder: Annotated[Path, typer.Option(help="Of the pages.")] = Path("docs/results"),
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if a page is not up to date.")
    ] = False,
) -> None:
    """Write the tables of the pages, and their summary, from kept results."""
    from treadle_lab.docs.pages import rendered_all

    old = 0
    for page, text in rendered_all(folder).items():
        if page.is_file() and page.read_text("utf-8") == text:
            continue
        old += 1
        if not check:
            page.write_text(text, "utf-8")
        typer.echo(f"{page} {'is not up to date' if check else 'written'}")
    if not old:
        typer.echo("all pages are up to date")
    if check and old:
        raise typer.Exit(1)

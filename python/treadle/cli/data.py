"""`treadle data`: see that data sets are what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables
from treadle.errors import UserError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """See that data sets are what they were (docs/data.md)."""


@app.command()
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="A folder with a SHA256SUMS; else the checkout's `data`.")
    ] = None,
) -> None:
    """Compare the files of a folder with its SHA256SUMS; the exit code is 1 if one differs or is missing."""
    from treadle.lab.harness.checksums import Verdict, check_folder
    from treadle.lab.minicluster.runtime import checkout

    root = checkout()
    place = folder or (None if root is None else root / "data")
    if place is None:
        raise UserError("this installation has no folder `data`: name one, or run this from a checkout")
    table = Table("file", "size (bytes)", "")
    found = list(check_folder(place))
    for each in found:
        table.add_row(each.name, f"{each.size_bytes:,}" if each.size_bytes else "-", each.verdict)
    console_for_tables().print(table)
    wrong = [each for each in found if each.verdict in (Verdict.DIFFERS, Verdict.MISSING)]
    if wrong:
        typer.echo(f"{place}: {len(wrong)} of {len(found)} files are not what they were; fetch them anew", err=True)
        raise typer.Exit(1)

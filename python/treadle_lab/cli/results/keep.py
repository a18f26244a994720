"""`treadle results keep`: run an experiment and keep its figures, with command line, day, machine and seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def keep(
    name: Annotated[str, typer.Argument(help="Of the kept result: FOLDER/kept/NAME.json.")],
    command: Annotated[
        list[str], typer.Argument(help="After --, a command of treadle that has --json.", metavar="COMMAND...")
    ],
    folder: Annotated[Path, typer.Option(help="Of the pages.")] = Path("docs/results"),
    note: Annotated[str, typer.Option(help="What readers should know, as: busy machine.")] = "",
) -> None:
    """Run an experiment and keep its figures: `treadle results keep slearn-model -- reproduce slearn --model`."""
    from treadle_lab.docs.pages import run_and_keep

    result = run_and_keep(name, command, folder, note)
    typer.echo(f"kept {folder}/kept/{name}.json; treadle results render puts it into the pages ({result.day})")

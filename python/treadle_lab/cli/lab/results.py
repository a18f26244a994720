"""`treadle lab results`: keep results of experiments and write their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Keep the results of experiments, and write the pages' tables from them.", no_args_is_help=True)


@app.command(
    short_help="Run an experiment and keep its figures, with command line, day, machine and seeds.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def keep(
    name: Annotated[str, typer.Argument(help="The name of the kept result: FOLDER/kept/NAME.json.")],
    command: Annotated[
        list[str], typer.Argument(help="After --, a command of treadle that has --out.", metavar="COMMAND...")
    ],
    folder: Annotated[Path, typer.Option(help="The folder of the pages.")] = Path("docs/results"),
    note: Annotated[str, typer.Option(help="A remark for readers, such as: measured next to other work.")] = "",
) -> None:
    """Run an experiment and keep its figures, as in `keep slearn-model -- lab reproduce slearn --model`."""
    from treadle_lab.docs.pages import run_and_keep

    result = run_and_keep(name, command, folder, note)
    typer.echo(f"kept {folder}/kept/{name}.json; treadle lab results render puts it into the pages ({result.day})")


@app.command()
def render(
    folder: Annotated[Path, typer.Option(help="The folder of the pages.")] = Path("docs/results"),
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

"""Options of commands that run an experiment's seeds, and what Ctrl-C does to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from treadle.cli._console import say

INTERRUPTED: Final = 130

CacheOption = Annotated[
    Path | None,
    typer.Option(help="A folder for the results of runs: those found there do not run again. None is kept without it."),
]
ProcessesOption = Annotated[
    int, typer.Option(min=0, max=1024, help="Runs at a time, each in a process; 0: one a core.")
]
"""Not ``--jobs``, as elsewhere: these commands have jobs to simulate."""


@contextmanager
def going_on(console: Console, cache: Path | None) -> Iterator[None]:
    """End with exit code 130 on Ctrl-C, and report what happens to the runs that have ended."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"what ran is kept in {cache}: the same command goes on" if cache else "--cache DIR keeps what has run"
        say(console, f"stopped; {kept}", "red")
        raise typer.Exit(INTERRUPTED) from None

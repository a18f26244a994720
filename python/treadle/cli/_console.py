"""Where commands show tables and how far they are, on a screen and in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from treadle.cli._options import Output
from treadle.errors import printable


class _PrintableConsole(Console):
    """Replaces unprintable characters in texts, also in table cells: users choose the names of their jobs."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(_lines(text), **options)


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def console_for_tables(width: int = 120) -> Console:
    """Return a console. In a log, which has no width, cells of a table that fit into ``width`` are not cut."""
    console = _PrintableConsole()
    if not console.is_terminal:
        console.width = max(console.width, width)
    return console


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line without markup, and without unprintable characters."""
    console.print(printable(text), style=style or None, markup=False, highlight=False, soft_wrap=True)


quiet = False
"""Whether `treadle --quiet` wants no progress."""


def progress_console() -> Console:
    """Return the console for progress, which is stderr: stdout has results alone."""
    return _PrintableConsole(stderr=True, quiet=quiet)


def console_for_notes() -> Console:
    """Return the console for notes and warnings, which is stderr: `--quiet` leaves them."""
    return _PrintableConsole(stderr=True)


def console_beside(output: Output) -> Console:
    """Return where tables and texts go: standard output, or standard error where that has JSON."""
    return console_for_tables() if output is Output.TABLE else console_for_notes()


COMPILING: Final = "reading compiled code; compiling it takes a minute or two, once a version"


@contextmanager
def compiling() -> Iterator[None]:
    """Show a message during compilation; a log gets one line."""
    text, console = COMPILING, progress_console()
    if not console.is_terminal:
        say(console, text)
        yield
        return
    with console.status(text):
        yield


@contextmanager
def steps(first: str = "starting") -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step: on a screen in one line that changes, in a log in one each."""
    console = progress_console()
    if not console.is_terminal:
        yield lambda text: say(console, text)
        return
    with console.status(first) as status:
        yield lambda text: status.update(printable(text))


def counted_progress(unit: str = "") -> Progress:
    """Return progress bars with counts, which disappear when all work is done."""
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    if unit:
        columns.append(TextColumn(unit))
    console = progress_console()
    # a file would get an empty line for each
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)


INTERRUPTED: Final = 130

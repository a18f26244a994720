"""The consoles of results, notes and progress, on a screen and in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import typer
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from treadle.cli._options import (
    Output,
    check_plotting,
    check_writable,
    json_text,
    make_folder,
    make_folder_of,
    print_json,
    writing,
)
from treadle.cli.main import switches
from treadle.errors import printable


class _PrintableConsole(Console):
    """Replaces unprintable characters in texts, also in table cells: users choose the names of their jobs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(_lines(text), **options)


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


LOG_WIDTH: Final = 200
"""The width of tables in a log, which has none itself."""


def console_for_tables() -> Console:
    """Return the console for results, which is stdout."""
    console = _PrintableConsole()
    if not console.is_terminal:
        console.width = max(console.width, LOG_WIDTH)
    return console


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line without unprintable characters."""
    console.print(printable(text), style=style or None, soft_wrap=True)


def progress_console() -> Console:
    """Return the console for progress, which is stderr: stdout has results alone."""
    return _PrintableConsole(stderr=True, quiet=switches.quiet)


def console_for_notes() -> Console:
    """Return the console for notes and warnings, which is stderr: `--quiet` leaves them."""
    return _PrintableConsole(stderr=True)


def note(text: str, style: str = "") -> None:
    """Print a note or a warning."""
    say(console_for_notes(), text, style)


def print_result(output: Output, document: object, *shown: RenderableType) -> None:
    """Print a result: the document as JSON, or tables and lines."""
    if output is Output.JSON:
        print_json(document)
        return
    for each in shown:
        console_for_tables().print(each, soft_wrap=isinstance(each, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPaths:
    """The form of printed results, and the files and folders for them; None: none."""

    output: Output = Output.TABLE
    out: Path | None = None
    plot: Path | None = None
    formats: tuple[str, ...] = ("png",)

    def check(self) -> Self:
        """Check, before long work, that the files and folders of ``--out`` and ``--plot`` can be written; return these.

        Raises:
            UserError: one of them cannot.
        """
        if self.plot is not None:
            check_plotting()
            make_folder(self.plot, "--plot")
        if self.out is not None:
            check_writable("--out", self.out)
        return self

    def publish(self, document: Any, show: Callable[[Console], None], text: Callable[[Any], str] = json_text) -> None:
        """Print results, as tables by ``show`` or as JSON by ``text``, and write them to the file of ``--out``.

        Raises:
            UserError: the file cannot be written.
        """
        if self.output is Output.JSON:
            typer.echo(text(document).rstrip("\n"))
        else:
            show(console_for_tables())
        if self.out is not None:
            self.write(document, text)
            note(f"wrote {self.out}")

    def write(self, document: Any, text: Callable[[Any], str] = json_text) -> None:
        """Write results, or those so far, to the file of ``--out``, if there is one.

        Raises:
            UserError: the file cannot be written.
        """
        if self.out is not None:
            with writing("--out", self.out, "file"):
                make_folder_of(self.out)
                self.out.write_text(text(document).rstrip("\n") + "\n", encoding="utf-8")

    def draw(self, plot: Callable[[Path], Iterable[Path]]) -> None:
        """Let plots be drawn into the folder of ``--plot``, if there is one.

        Raises:
            UserError: they cannot be written.
        """
        if self.plot is not None:
            with writing("--plot", self.plot, "folder"):
                for file in plot(self.plot):
                    note(f"wrote {file}")


COMPILING: Final = "reading compiled code; compiling it takes a minute or two, once a version"


@contextmanager
def compiling() -> Iterator[None]:
    """Show a message during compilation; a log gets one line."""
    with steps(COMPILING) as show:
        show(COMPILING)
        yield


@contextmanager
def steps(first: str = "starting") -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step: on a screen in one line that changes, in a log in one each."""
    console = progress_console()
    if not console.is_terminal:
        last = ""

        def show(text: str) -> None:
            nonlocal last
            if text != last:
                say(console, text)
            last = text

        yield show
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

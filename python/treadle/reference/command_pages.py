"""The page of commands: what each says of itself with `--help`."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from treadle.cli import main

COLUMNS: Final = 100
"""Of the terminal; Typer uses 80 of them at most."""

HEAD: Final = """\
# Commands

Every command of `treadle`, as `treadle COMMAND --help` describes it. Exit codes: 0, done; 1, what the command looked at
is not as it should be; 2, a mistake, or nobody could be asked, with a text on standard error.

"""


def commands_page() -> str:
    """Return the page in Markdown."""
    chapters = [f"## `treadle {' '.join(path)}`\n\n```text\n{help_of(path)}```\n" for path in command_paths()]
    return HEAD + "\n".join(chapters)


def command_paths() -> list[tuple[str, ...]]:
    """Return the words of each command, groups left out: the product's, then the laboratory's."""
    return [path for folder in main.sources().values() for name in main.commands(folder) for path in _below((name,))]


def _below(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    inside = getattr(_found(path), "commands", None)
    if inside is None:
        yield path
        return
    for name in inside:
        yield from _below((*path, name))


def _found(path: tuple[str, ...]) -> Any:
    from typer.main import get_command

    command: Any = get_command(main.application(path))
    for word in path:
        command = command.commands[word]
    return command


def help_of(path: tuple[str, ...]) -> str:
    """Return what a command prints with --help, whatever terminal and user this is run for."""
    printed, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(COLUMNS)
    try:
        with contextlib.redirect_stdout(printed):
            code = main.run([*path, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        os.environ.update({} if columns is None else {"COLUMNS": columns})
    if code != 0:
        raise ValueError(f"treadle {' '.join(path)} --help ends with exit code {code}")
    text = printed.getvalue().replace(str(Path.home()), "~")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())

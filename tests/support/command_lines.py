"""Command lines of `treadle`, parsed as their commands do."""

from __future__ import annotations

import shlex
from typing import Any

import click
from typer.main import get_command

from treadle.cli import main


def parse(line: str, *, typed: bool = False) -> None:
    """Parse a command line as its command does; without types unless ``typed``.

    Raises:
        Exception: there is no such command or option, an option lacks its value, or an argument is one too many.
    """
    words = shlex.split(line)
    names = [word for word in words[:3] if not word.startswith("-")]
    command: Any = get_command(main.application(names))
    at = 0
    while at < len(words) and words[at] in getattr(command, "commands", {}):
        command, at = command.commands[words[at]], at + 1
    is_group = bool(getattr(command, "commands", {}))
    if at == 0 or (is_group and at < len(words) and not words[at].startswith("-")):
        raise click.UsageError(f"no command {' '.join(words[: at + 1])}")
    if typed:
        command.make_context(line, words[at:])
    context = click.Context(command, info_name=line)
    _, rest, _ = command.make_parser(context).parse_args(words[at:])
    if rest and not is_group and not command.allow_extra_args:
        raise click.UsageError(f"{line}: {' '.join(rest)} is not expected")

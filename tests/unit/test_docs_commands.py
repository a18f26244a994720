"""Every command line of `treadle` on the pages is one that its command takes: names, options, arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest
from tests.support.prose import pages
from typer.main import get_command

from treadle.cli import main

BLOCK = re.compile(r"^ *```(?:sh|console|)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
BETWEEN = re.compile(r"&&|\|\||;|\|| & ?$|>")
BEFORE = re.compile(r"^(?:sudo -u \w+|on_cluster|treadle minicluster exec --) ")
SYNOPSIS = re.compile(r"[\[\]…]")


def command_lines(text: str) -> Iterator[str]:
    """Yield what follows `treadle` in the blocks of a page; synopses, which have brackets, are left out."""
    blocks = [block.replace("\\\n", " ") for block in BLOCK.findall(text)]
    for line in [line for block in blocks for line in block.splitlines()] + re.findall(r"^ {4}(\S.*)$", text, re.M):
        plain = re.sub(r"\s#.*", "", line.removeprefix("$ "))
        for part in BETWEEN.split(plain):
            found = re.match(r"(?:\S*/)?treadle (.*)$", BEFORE.sub("", part.strip()))
            if found and not SYNOPSIS.search(found[1]):
                yield found[1]


LINES = [(name, line) for name, page in pages().items() for line in command_lines(page.read_text("utf-8"))]


def parse(line: str) -> None:
    """Parse a command line as its command does, without types.

    Raises:
        Exception: there is no such command or option, or an option lacks its value.
    """
    words = shlex.split(line)
    names = [word for word in words[:2] if not word.startswith("-")]
    command: Any = get_command(main.application(names))
    at = 0
    while at < len(words) and words[at] in getattr(command, "commands", {}):
        command, at = command.commands[words[at]], at + 1
    if at == 0:
        raise click.UsageError(f"no command {words[0]}")
    command.make_parser(click.Context(command, info_name=line)).parse_args(words[at:])


def test_pages_have_command_lines() -> None:
    assert len(LINES) > 80


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda value: value[:60])
def test_a_command_line_parses(name: str, line: str) -> None:
    parse(line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("simulat x.yaml", "simulat"),
        ("simulate x.yaml --seed-count 3", "No such option"),
        ("policy check --scenario", "requires an argument"),
    ],
)
def test_a_wrong_command_line_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(Exception, match=complaint):
        parse(line)

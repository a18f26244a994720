"""User errors, in a treadle.yaml and elsewhere, and helpers for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, NamedTuple

from treadle import __version__


class UserError(Exception):
    """An error that the user can correct; the text has the problem and the remedy.

    The command line shows the text without a stack trace and ends with exit code 2.
    """


def printable(text: str, instead: str = " ") -> str:
    """Return an untrusted text without line breaks, cursor movements and terminal commands."""
    return "".join(character if character.isprintable() else instead for character in text)


def install_extra(extra: str) -> str:
    """Return how to install an extra: from the wheel, since an index may have another project of the same name."""
    return f"pip install 'treadle-{__version__}-py3-none-any.whl[{extra}]'"


STALLED: Final = "stalled: queue "
"""Prefix of the engine's line on a queue that stays below its entitlement; the queue's path follows."""


def stalled_queue(line: str) -> str:
    """Return the path of the stalled queue in a line of the engine; empty for other lines."""
    return line.removeprefix(STALLED).split(" ")[0] if line.startswith(STALLED) else ""


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and its noun: ``1 history``, ``2 histories``.

    Args:
        number: the number
        one: singular
        many: plural; defaults to the singular with an ``s``
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def percent(fraction: float, form: str = ".0f") -> str:
    """Return a fraction as a percentage, such as ``12 %``; ``form`` formats the number."""
    return f"{100 * fraction:{form}} %"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` with the known word nearest to an unknown one; empty if none is near."""
    near = get_close_matches(word, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


class Problem(NamedTuple):
    """One problem: its location and the remedy."""

    line: int
    """From 1; 0 for the whole file."""
    field: str
    """Such as ``policy.fit.window``; empty for the whole file."""
    text: str


class ConfigError(UserError):
    """An invalid settings file; its text has a line for each problem: ``file:line: field: problem``."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = sorted(problems)
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return each problem as ``file:line: field: problem``."""
        return lines_of(self.file, self.problems)


def lines_of(file: str, problems: Iterable[Problem]) -> list[str]:
    """Return each problem of a file as ``file:line: field: problem``."""
    return [
        f"{file}{f':{line}' if line else ''}: {f'{field}: ' if field else ''}{text}" for line, field, text in problems
    ]


def unknown(word: str, known: Iterable[str]) -> str:
    """Return that a word is unknown, with the nearest known one if one is near."""
    known = sorted(known)
    return f"{word!r} is not one of {', '.join(known) or 'none'}{nearest(word, known)}"

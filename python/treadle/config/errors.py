"""What is wrong with a treadle.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from treadle.errors import UserError, nearest


class Problem(NamedTuple):
    """One thing that is wrong: where it stands, and what would be right."""

    line: int
    """From 1; 0 if it is the whole file."""
    field: str
    """As ``policy.fit.window``; empty if it is the whole file."""
    text: str


class ConfigError(UserError):
    """A file of settings that cannot be used; its text has a line for each problem: ``file:line: field: problem``."""

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
    """Return that a word is not one of those known, and the nearest of them if one is near."""
    known = sorted(known)
    return f"{word!r} is not one of {', '.join(known) or 'none'}{nearest(word, known)}"

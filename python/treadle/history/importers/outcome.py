"""What importers have in common: a history gives runs, or says why it gives none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

LINE_BYTES_MAX: Final = 64 << 20
"""A longer line is no event."""


class BrokenHistoryError(Exception):
    """A history that cannot be read; the text says why, without its name."""


class RefusedError(Exception):
    """A history that is not read, or not believed; the text says why, without its name."""


class UnfinishedError(Exception):
    """A history of a job that has not ended, or not well: nothing is learned from it. The text says which."""


@dataclass(frozen=True, slots=True)
class Source:
    """One history: a file, a folder of files that belong together, or a job of a server."""

    kind: str
    name: str
    """As errors call it."""
    path: Path
    owner: int = -1
    """Number of the user whose time it is when reading takes long; -1 if not known."""
    why: str = ""
    """Of what is not read: the reason."""


def lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream with their numbers, from 1; empty ones are left out.

    Raises:
        BrokenHistoryError: a line is longer than `LINE_BYTES_MAX`.
    """
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise BrokenHistoryError(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
        if line.strip():
            yield number, line


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list; an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text; the empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def number(value: object, otherwise: int = 0) -> int:
    """Return a whole number, also of a text that is one; ``otherwise`` in place of anything else."""
    if isinstance(value, bool):
        return otherwise
    if isinstance(value, int | float) and value == value and abs(value) < 2**62:
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("-").isascii() and value.strip().lstrip("-").isdigit():
        return int(value[:18])
    return otherwise


def tags_of(value: object) -> list[str]:
    """Return the tags of a text that lists them with commas between."""
    return [tag.strip() for tag in text(value).split(",") if tag.strip()]

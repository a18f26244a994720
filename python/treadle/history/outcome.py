"""What importers have in common: a history gives runs, or says why it gives none.

Opens what a history consists of: regular files alone, no links, within bounds; remembers whose they are.

Histories lie where users write: what was a file a moment ago may be a pipe, a link or a terabyte now. So each file is
judged by its open descriptor.
"""

from __future__ import annotations

import os
import stat
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


BYTES_MAX: Final = 4 << 30
"""Of the files of one history together."""


class Files:
    """The files of one history."""

    def __init__(self) -> None:
        self.owners: dict[int, str] = {}
        """Numbers of the users whose the files are, each with the name of one of them."""
        self.open_to_all = ""
        """The name of one that every user may write; empty if there is none."""
        self._bytes = 0

    def open(self, path: Path) -> BinaryIO:
        """Open a file.

        Raises:
            BrokenHistoryError: it is not a regular file, or too large together with those before.
            OSError: it cannot be read.
        """
        stream = open_regular(path)
        status = os.fstat(stream.fileno())
        self._bytes += status.st_size
        if self._bytes > BYTES_MAX:
            stream.close()
            raise BrokenHistoryError(f"larger than {BYTES_MAX} bytes")
        self.owners.setdefault(status.st_uid, path.name)
        if status.st_mode & stat.S_IWOTH:
            self.open_to_all = path.name
        return stream


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file; a pipe is not waited for, and a link at its place is not followed.

    Raises:
        BrokenHistoryError: it is something else.
        OSError: it cannot be read.
    """
    stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise BrokenHistoryError(f"{path.name} is not a regular file")
    return stream


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)

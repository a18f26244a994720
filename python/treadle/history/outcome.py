"""Common parts of importers: a history contains runs, or a reason why it does not.

Opens the files of a history: only regular files, no links, within bounds; records their owners.

Histories are in folders that users write: a file may be replaced by a pipe, a link or a terabyte at any time. So each
file is checked by its open descriptor.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

LINE_BYTES_MAX: Final = 64 << 20
"""Maximum length of a line."""


class BrokenHistoryError(Exception):
    """An unreadable history; the text is the reason, without its name."""


class RefusedError(Exception):
    """A history that is skipped or not trusted; the text is the reason, without its name."""


class UnfinishedError(Exception):
    """A history of a job that has not succeeded, which is not learned from. The text says which."""


@dataclass(frozen=True, slots=True)
class Source:
    """One history: a file, a folder of related files, or a job of a server."""

    kind: str
    name: str
    """Its name in errors."""
    path: Path
    owner: int = -1
    """ID of the user charged with reading time; -1 if unknown."""
    why: str = ""
    """Why it is skipped."""


def lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the nonempty lines of a stream with their numbers, from 1.

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
    """Return a mapping; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list; an empty one for any other value."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text; an empty one for any other value."""
    return value if isinstance(value, str) else ""


def number(value: object, otherwise: int = 0) -> int:
    """Return an integer, also from a text; ``otherwise`` for any other value."""
    if isinstance(value, bool):
        return otherwise
    if isinstance(value, int | float) and value == value and abs(value) < 2**62:
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("-").isascii() and value.strip().lstrip("-").isdigit():
        return int(value[:18])
    return otherwise


def tags_of(value: object) -> list[str]:
    """Return the tags in a comma-separated text."""
    return [tag.strip() for tag in text(value).split(",") if tag.strip()]


BYTES_MAX: Final = 4 << 30
"""Maximum total size of the files of one history."""


class Files:
    """The files of one history."""

    def __init__(self) -> None:
        self.owners: dict[int, str] = {}
        """IDs of the files' owners, each with the name of one file."""
        self.open_to_all = ""
        """The name of a file that every user may write; empty if there is none."""
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
    """Open a regular file, without waiting for a pipe or following a link.

    Raises:
        BrokenHistoryError: it is something else.
        OSError: it cannot be read.
    """
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    stream = open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise BrokenHistoryError(f"{path.name} is not a regular file")
    return stream

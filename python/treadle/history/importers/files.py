"""Opens what a history consists of: regular files alone, no links, within bounds; remembers whose they are.

Histories lie where users write: what was a file a moment ago may be a pipe, a link or a terabyte now. So each file is
judged by its open descriptor.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from treadle.history.importers.outcome import BrokenHistoryError

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
            BrokenHistoryError: it is no regular file, or too large together with those before.
            OSError: it cannot be read.
        """
        stream = open_regular(path)
        found = os.fstat(stream.fileno())
        self._bytes += found.st_size
        if self._bytes > BYTES_MAX:
            stream.close()
            raise BrokenHistoryError(f"larger than {BYTES_MAX} bytes")
        self.owners.setdefault(found.st_uid, path.name)
        if found.st_mode & stat.S_IWOTH:
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
        raise BrokenHistoryError(f"{path.name} is no regular file")
    return stream


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)

"""The splits of a MapReduce job as its client uploads them: job.splitmetainfo in the job's staging folder.

Hadoop's `SplitMetaInfoReader` reads the same file for the application master: a header, a version, and for each map the
hosts of its split, where that begins, and how long it is. Maps are in the order of the file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from treadle.stages.splits import SPLITS_MAX, Split

HEADER: Final = b"META-SPL"
VERSION: Final = 1
BYTES_MAX: Final = 64 << 20
HOSTS_MAX: Final = 1_000


class SplitMetaError(ValueError):
    """A file is no job.splitmetainfo, or one that is too large."""


def staged_splits(staging: str, user: str, application_id: str) -> Path:
    """Return where a job's splits are: ``{user}`` in the staging folder's path is the job's user."""
    job = application_id.replace("application_", "job_")
    return Path(staging.replace("{user}", user)) / job / "job.splitmetainfo"


def read_splits(file: Path) -> list[Split]:
    """Read the splits of a job.

    The file is a user's: nothing is waited for if it is a pipe.

    Raises:
        OSError: the file cannot be read.
        SplitMetaError: it is none, or has more than `SPLITS_MAX` splits.
    """
    with open(file, "rb", opener=_without_waiting) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise SplitMetaError(f"{file}: no plain file")
        content = stream.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise SplitMetaError(f"{file}: more than {BYTES_MAX} bytes")
    if not content.startswith(HEADER):
        raise SplitMetaError(f"{file}: no job.splitmetainfo")
    reader = _Reader(file, content, len(HEADER))
    version, count = reader.number(), reader.number()
    if version != VERSION:
        raise SplitMetaError(f"{file}: version {version}, and only {VERSION} is known")
    if not 0 <= count <= SPLITS_MAX:
        raise SplitMetaError(f"{file}: {count} splits, at most {SPLITS_MAX} are read")
    return [reader.split() for _ in range(count)]


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


class _Reader:
    """Hadoop's variable-length numbers and texts (`WritableUtils`, `Text`)."""

    def __init__(self, file: Path, content: bytes, at: int) -> None:
        self._file, self._content, self._at = file, content, at

    def split(self) -> Split:
        hosts = self.number()
        if not 0 <= hosts <= HOSTS_MAX:
            raise SplitMetaError(f"{self._file}: a split on {hosts} hosts")
        names = tuple(self.text() for _ in range(hosts))
        self.number()  # where it begins
        return Split(max(0, self.number()), names)

    def text(self) -> str:
        return self._take(self.number()).decode("utf-8", "replace")

    def number(self) -> int:
        """Read a VLong: one byte from -112 to 127, or how many bytes follow and the sign, and those."""
        first = int.from_bytes(self._take(1), signed=True)
        if first >= -112:
            return first
        negative = first < -120
        value = int.from_bytes(self._take(-first - 120 if negative else -first - 112))
        return ~value if negative else value

    def _take(self, count: int) -> bytes:
        found = self._content[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise SplitMetaError(f"{self._file}: it is cut off")
        self._at += count
        return found

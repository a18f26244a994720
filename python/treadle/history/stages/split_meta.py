"""The splits of a MapReduce job as its client uploads them: job.splitmetainfo in the job's staging folder.

Hadoop's `SplitMetaInfoReader` reads the same file for the application master: a header, a version, and for each map the
hosts of its split, where that begins, and how long it is. Maps are in the order of the file.

The folder is a user's, and may hold anything. Below the part of the path that the administrator named no link is
followed, and the file must be the user's own: else one user could have the sidecar read what it may read and he not.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import BinaryIO, Final

from treadle.history.stages.splits import SPLITS_MAX, Split

HEADER: Final = b"META-SPL"
VERSION: Final = 1
BYTES_MAX: Final = 4 << 20
"""Some 50,000 maps."""
HOSTS_KEPT: Final = 10
"""Of a split; MapReduce's clients write up to 15 (``mapreduce.job.max.split.locations``)."""
HOSTS_MAX: Final = 1_000

_USER: Final = "{user}"


class SplitMetaError(ValueError):
    """A file is no job.splitmetainfo, or one that is too large, or not the user's."""


def open_staged(staging: str, user: str, application_id: str) -> BinaryIO:
    """Open the splits of a job; ``{user}`` in the staging folder's path is the job's user.

    Raises:
        OSError: the file cannot be opened, or a link is on the way.
        SplitMetaError: it is not the user's, or no regular file.
    """
    if not user.isprintable() or "/" in user or user in {"", ".", ".."}:
        raise SplitMetaError("no folder can have the user's name")
    parts = Path(staging).parts
    named = next((at for at, part in enumerate(parts) if _USER in part), len(parts))
    job = application_id.replace("application_", "job_")
    folders = [*(part.replace(_USER, user) for part in parts[named:]), job]
    at = os.open(Path(*parts[:named]), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            within = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = within
        # a pipe is not waited for
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        file = os.open("job.splitmetainfo", flags, dir_fd=at)
    finally:
        os.close(at)
    stream = os.fdopen(file, "rb")
    try:
        _check(os.fstat(file), user)
    except SplitMetaError:
        stream.close()
        raise
    return stream


def uid_of(user: str) -> int | None:
    """Return the number of a user; None if this machine knows no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def read_splits(stream: BinaryIO) -> list[Split]:
    """Read the splits of a job, of each `HOSTS_KEPT` hosts at most.

    Raises:
        OSError: the file cannot be read.
        SplitMetaError: it is no job.splitmetainfo, or has more than `SPLITS_MAX` splits.
    """
    content = stream.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise SplitMetaError(f"more than {BYTES_MAX} bytes")
    if not content.startswith(HEADER):
        raise SplitMetaError("no job.splitmetainfo")
    reader = _Reader(content, len(HEADER))
    version, count = reader.number(), reader.number()
    if version != VERSION:
        raise SplitMetaError(f"version {version}, and only {VERSION} is known")
    if not 0 <= count <= SPLITS_MAX:
        raise SplitMetaError(f"{count} splits, at most {SPLITS_MAX} are read")
    return [reader.split() for _ in range(count)]


def _check(found: os.stat_result, user: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SplitMetaError("no regular file")
    if found.st_uid != uid_of(user):
        raise SplitMetaError(f"it belongs to uid {found.st_uid}, which is not {user}")
    if found.st_mode & stat.S_IWOTH:
        raise SplitMetaError("every user may write it")


class _Reader:
    """Hadoop's variable-length numbers and texts (`WritableUtils`, `Text`)."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self._at = content, at
        self._names: dict[bytes, str] = {}
        """Hosts that were read: the same ones come again and again."""

    def split(self) -> Split:
        hosts = self.number()
        if not 0 <= hosts <= HOSTS_MAX:
            raise SplitMetaError(f"a split on {hosts} hosts")
        names = tuple(self.text() for _ in range(min(hosts, HOSTS_KEPT)))
        for _ in range(hosts - len(names)):
            self._take(self.number())
        self.number()  # where it begins
        return Split(max(0, self.number()), names)

    def text(self) -> str:
        content = self._take(self.number())
        name = self._names.get(content)
        if name is None:
            name = self._names[content] = content.decode("utf-8", "replace")
        return name

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
            raise SplitMetaError("it is cut off")
        self._at += count
        return found

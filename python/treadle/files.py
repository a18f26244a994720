"""Files that are written whole or not at all, and those that one process at a time may hold.

Unpacks zstd within bounds: the output stays in proportion to the input, whatever a file states.

Recordings and histories come from other users and other clusters, and a few packed bytes may expand many thousand
times.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final


def write_whole(path: Path, content: str | bytes, prepare: Callable[[int], None] | None = None) -> None:
    """Put a content in a file's place at once: readers find the old file or the new one, each complete.

    Args:
        path: of the file; its folder must exist. What a link leads to is left as it is: the link is replaced
        content: all of it; a text is written as UTF-8
        prepare: given the descriptor of the new file before anything is written to it, for owner and mode; without it
            only this user may read the file

    Raises:
        OSError: it cannot be written; nothing has changed then.
    """
    try:
        _write_whole(path, content, prepare)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # not the name of a file that is gone again
        raise


def _write_whole(path: Path, content: str | bytes, prepare: Callable[[int], None] | None) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if prepare is not None:
                prepare(descriptor)
            stream.write(content.encode() if isinstance(content, str) else content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


@contextmanager
def own_folder(folder: Path, owner: tuple[int, int]) -> Iterator[Path]:
    """Make a folder for a user and group alone if it is missing; yield a path that leads to that very folder.

    The user may put a link in the folder's place. The path leads nowhere else, so that root may write below it.

    Raises:
        NotADirectoryError: it is a link or a file.
        OSError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(errno.ENOTDIR, "a link or a file is in a folder's place", str(folder)) from error
    try:
        own_as(descriptor, owner)
        os.fchmod(descriptor, 0o700)
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def own_as(descriptor: int, owner: tuple[int, int]) -> None:
    """Give an open file or folder to a user and group, unless this process writes as them."""
    if owner != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, *owner)


def read_regular(path: Path, bytes_max: int) -> bytes:
    """Return the content of a regular file, and of a longer one so many bytes and one more.

    Raises:
        OSError: it cannot be read, or is a device, a pipe or anything else that might not end.
    """
    # Without O_NONBLOCK a pipe is waited for before it can be seen that it is one.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code) if code == errno.EISDIR else "not a regular file", str(path))
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(bytes_max + 1)


def hold(descriptor: int) -> bool:
    """Hold the lock of an open file until it is closed; False, at once, where another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


UNPACKED_BYTES_MAX: Final = 16 << 20
"""Unpacked size that any stream may have; beyond, `RATIO_MAX` times its packed bytes."""
RATIO_MAX: Final = 256
WINDOW_BYTES_MAX: Final = 128 << 20
"""How far back a frame may refer, which bounds the memory for it."""

_STEP_BYTES: Final = 1 << 10
"""Packed bytes that are unpacked before the output is counted: they expand to 32 MiB at most."""


class UnpackError(Exception):
    """A stream that is not zstd, or that unpacks to too much; the text says which."""


def bound(packed_bytes: int) -> int:
    """Return how many bytes a stream of so many packed bytes may unpack to."""
    return UNPACKED_BYTES_MAX + RATIO_MAX * packed_bytes


class Unpacker:
    """Unpacks one stream of zstd frames, piece by piece."""

    def __init__(self) -> None:
        """Begin a stream.

        Raises:
            ImportError: the library zstandard, an extra, is missing.
        """
        import zstandard

        self._decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
        self._error = zstandard.ZstdError
        self._frame: Any = None
        self._packed_bytes = self._unpacked_bytes = 0

    @property
    def room(self) -> int:
        """How many bytes the part of the stream that was given so far may unpack to."""
        return bound(self._packed_bytes)

    @property
    def in_frame(self) -> bool:
        """Is the latest frame incomplete?"""
        return self._frame is not None

    def unpack(self, packed: bytes, stated_bytes: int | None = None) -> bytes:
        """Return the content of the stream's next packed bytes.

        Args:
            packed: the bytes
            stated_bytes: the length that the file states for the content; None: it states none

        Raises:
            UnpackError: they do not unpack, unpack to more than stated, or to more than `bound` allows the stream.
        """
        self._packed_bytes += len(packed)
        room = self.room - self._unpacked_bytes
        pieces: list[bytes] = []
        length = 0
        for at in range(0, len(packed), _STEP_BYTES):
            left = packed[at : at + _STEP_BYTES]
            while left:
                content, left = self._step(left)
                pieces.append(content)
                length += len(content)
                if stated_bytes is not None and length > stated_bytes:
                    raise UnpackError(f"it unpacks to more than the {stated_bytes} bytes that it states")
                if length > room:
                    raise UnpackError(
                        f"{self._packed_bytes} bytes of it unpack to more than {RATIO_MAX} times as many "
                        f"and {UNPACKED_BYTES_MAX >> 20} MiB"
                    )
        self._unpacked_bytes += length
        return b"".join(pieces)

    def _step(self, packed: bytes) -> tuple[bytes, bytes]:
        """Return the content of a few bytes, and those behind the end of their frame."""
        self._frame = self._frame or self._decompressor.decompressobj()
        try:
            content: bytes = self._frame.decompress(packed)
        except self._error as error:
            raise UnpackError(str(error)) from error
        behind: bytes = self._frame.unused_data
        if self._frame.eof:
            self._frame = None
        return content, behind

"""Atomic file writes, and exclusive locks.

Bounded unpacking of zstd: the output stays in proportion to the input, whatever a file states.

Recordings and histories come from other users and clusters, and a few packed bytes may expand many thousand times.
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
    """Replace a file's content atomically: readers find the old or the new file, each complete.

    Args:
        path: the file; its folder must exist. A link is replaced, its target is unchanged
        content: all of it; a text is written as UTF-8
        prepare: called with the descriptor of the new file before anything is written, for owner and mode; without it
            only this user may read the file

    Raises:
        OSError: it cannot be written; nothing has changed.
    """
    try:
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
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # not the name of the new file, which is removed again
        raise


@contextmanager
def own_folder(folder: Path, owner: tuple[int, int]) -> Iterator[Path]:
    """Create a folder for a user and group alone if it is missing; yield a path that leads to that very folder.

    The user may replace the folder by a link. The path is not affected, so that root may write below it.

    Raises:
        NotADirectoryError: it is a link or a file.
        OSError: it cannot be created.
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
    """Set the owner and group of an open file or folder, unless this process has them."""
    if owner != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, *owner)


def read_regular(path: Path, bytes_max: int) -> bytes:
    """Return the content of a regular file, cut after ``bytes_max`` + 1 bytes.

    Raises:
        OSError: it cannot be read, or is a device, a pipe or anything else that might not end.
    """
    # Without O_NONBLOCK opening a pipe blocks before its type can be checked.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code) if code == errno.EISDIR else "not a regular file", str(path))
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(bytes_max + 1)


def hold(descriptor: int) -> bool:
    """Lock an open file until it is closed; False, at once, if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


UNPACKED_BYTES_MAX: Final = 16 << 20
"""Unpacked size allowed for any stream; beyond, `RATIO_MAX` times its packed bytes."""
RATIO_MAX: Final = 256
WINDOW_BYTES_MAX: Final = 128 << 20
"""Maximum window of a frame, which bounds the memory for it."""

_STEP_BYTES: Final = 1 << 10
"""Packed bytes unpacked before the output is counted: they expand to 32 MiB at most."""


class UnpackError(Exception):
    """A stream that is not zstd, or unpacks to too much; the text says which."""


def bound(packed_bytes: int) -> int:
    """Return the maximum unpacked size of a stream of this packed size."""
    return UNPACKED_BYTES_MAX + RATIO_MAX * packed_bytes


class Unpacker:
    """Unpacks one stream of zstd frames, piece by piece."""

    def __init__(self) -> None:
        """Start a stream.

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
        """Maximum unpacked size of the part of the stream so far."""
        return bound(self._packed_bytes)

    @property
    def in_frame(self) -> bool:
        """Return whether the latest frame is incomplete."""
        return self._frame is not None

    def unpack(self, packed: bytes, stated_bytes: int | None = None) -> bytes:
        """Return the content of the stream's next packed bytes.

        Args:
            packed: the bytes
            stated_bytes: the content's length stated in the file; None: not stated

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
        """Return the content of a few bytes, and the bytes after the end of their frame."""
        self._frame = self._frame or self._decompressor.decompressobj()
        try:
            content: bytes = self._frame.decompress(packed)
        except self._error as error:
            raise UnpackError(str(error)) from error
        behind: bytes = self._frame.unused_data
        if self._frame.eof:
            self._frame = None
        return content, behind

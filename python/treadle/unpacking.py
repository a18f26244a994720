"""Unpacks zstd within bounds: the output stays in proportion to the input, whatever a file states.

Recordings and histories come from other users and other clusters, and a few packed bytes may expand many thousand
times.
"""

from __future__ import annotations

from typing import Any, Final

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
        found: list[bytes] = []
        length = 0
        for at in range(0, len(packed), _STEP_BYTES):
            left = packed[at : at + _STEP_BYTES]
            while left:
                content, left = self._step(left)
                found.append(content)
                length += len(content)
                if stated_bytes is not None and length > stated_bytes:
                    raise UnpackError(f"it unpacks to more than the {stated_bytes} bytes that it states")
                if length > room:
                    raise UnpackError(
                        f"{self._packed_bytes} bytes of it unpack to more than {RATIO_MAX} times as many "
                        f"and {UNPACKED_BYTES_MAX >> 20} MiB"
                    )
        self._unpacked_bytes += length
        return b"".join(found)

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

"""Reads the bodies of messages: values one after another, big-endian, none of them trusted."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Any, Final, TypeVar

T = TypeVar("T")

_INT: Final = Struct(">i")
_SHORT: Final = Struct(">H")


class MessageError(Exception):
    """Bytes that are no message."""


class Reader:
    """Reads values one after another; raises `struct.error` or `ValueError` where there are none."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def take(self, struct: Struct) -> tuple[Any, ...]:
        """Return the values of a structure."""
        values = struct.unpack_from(self.body, self.at)
        self.at += struct.size
        return values

    def number(self) -> int:
        """Return an i32."""
        (number,) = self.take(_INT)
        return int(number)

    def count(self, most: int) -> int:
        """Return an i32 that says how many there are of something.

        Raises:
            MessageError: less than 0 or too many.
        """
        count = self.number()
        if not 0 <= count <= most:
            raise MessageError(f"{count} of something of which at most {most} are taken")
        return count

    def text(self) -> str:
        """Return a text."""
        (length,) = self.take(_SHORT)
        content = self.body[self.at : self.at + length]
        if len(content) < length:
            raise MessageError("a text that is cut off")
        self.at += length
        return content.decode("utf-8")


def read_whole(body: bytes, read: Callable[[Reader], T]) -> T:
    """Return what ``read`` makes of a body, all of it.

    Raises:
        MessageError: it is damaged, or longer than what was read.
    """
    reader = Reader(body)
    try:
        found = read(reader)
    except (error, UnicodeDecodeError, ValueError) as problem:
        raise MessageError(f"a damaged body: {problem}") from problem
    if reader.at != len(body):
        raise MessageError(f"{len(body) - reader.at} bytes too many")
    return found

"""A Unix socket for questions to a sidecar, for its user alone; it answers one question at a time.

Also the functions to call before the process ends.
"""

from __future__ import annotations

import json
import logging
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, TypeVar

from treadle.config.trust import EXPLAIN_SOCKET, trusted_owners
from treadle.errors import printable

_log = logging.getLogger(__name__)

NO_QUESTION: Final = b'{"error": "not a question: use the `treadle` of the sidecar\'s release"}'

QUESTION_BYTES_MAX: Final = 4096
ANSWER_BYTES_MAX: Final = 16 << 20
WAIT_S: Final = 5.0
"""Time for a client to ask and to take the answer."""

_WAITING_MAX: Final = 4
_PART_BYTES: Final = 1 << 16
_CREDENTIALS: Final = struct.Struct("3i")

RETRY_S: Final = 1.0
"""Pause before connections are accepted again, after the system had no resources for one."""

D = TypeVar("D", bound="QuestionServer")


class QuestionServer:
    """Answers root and this process's user. Subclasses answer the questions."""

    def __init__(self, path: Path) -> None:
        """Open the socket.

        Args:
            path: where; a socket that an earlier sidecar left there is replaced

        Raises:
            OSError: it cannot be opened.
        """
        self.path = path
        self._closed = Event()
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            path.unlink()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listening.bind(str(path))
            path.chmod(0o600)  # before it listens, so that no other user can connect
            self._listening.listen(_WAITING_MAX)
        except OSError:
            self._listening.close()
            raise

    def start(self) -> None:
        """Answer from now on, on a daemon thread, which the end of the process does not wait for."""
        Thread(target=self._serve, name="explain", daemon=True).start()

    def close(self) -> None:
        """Answer no more. The thread ends when a question that it has is answered."""
        self._closed.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # otherwise the thread in accept() would go on waiting
        self._listening.close()
        with suppress(OSError):
            self.path.unlink()

    def _serve(self) -> None:
        why = ""
        while not self._closed.is_set():
            try:
                self._next()
                why = ""
            except OSError as error:  # such as too many open files: that passes, or this socket has been closed
                if str(error) != why and not self._closed.is_set():
                    why = str(error)
                    _log.warning("treadle explain does not answer, and is started again: %s", why)
                self._closed.wait(RETRY_S)

    def _next(self) -> None:
        connected, _ = self._listening.accept()
        with connected:
            try:
                self._answer(connected)
            except Exception as error:  # a client that disconnects, or is too slow, does not affect the next
                _log.warning("a question was not answered: %s", printable(str(error)))

    def _answer(self, connected: socket.socket) -> None:
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] not in trusted_owners():
            return
        answer = self.answer_to(_line(connected, QUESTION_BYTES_MAX, time.monotonic() + WAIT_S))
        connected.settimeout(WAIT_S)
        connected.sendall(answer + b"\n")

    def answer_to(self, line: bytes) -> bytes:
        """Return the answer to a line; JSON."""
        raise NotImplementedError


def _line(connected: socket.socket, bytes_max: int, until_s: float) -> bytes:
    """Return the line that arrives, or its first bytes up to the maximum.

    Raises:
        TimeoutError: it has not arrived in time, even if single bytes have.
    """
    line, part = bytearray(), b""
    while b"\n" not in part and len(line) < bytes_max:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the line has not come in time")
        connected.settimeout(left_s)
        part = connected.recv(min(_PART_BYTES, bytes_max - len(line)))
        if not part:
            break
        line += part
    return bytes(line).partition(b"\n")[0]


def ask_server(folder: Path, question: Mapping[str, Any], timeout_s: float) -> bytes:
    """Return the answer of the sidecar with this state folder.

    Raises:
        OSError: no sidecar listens, or the whole answer has not arrived in time.
    """
    until_s = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.settimeout(timeout_s)
        connected.connect(str(folder / EXPLAIN_SOCKET))
        connected.sendall(json.dumps(question).encode() + b"\n")
        return _line(connected, ANSWER_BYTES_MAX, until_s)


def opened(folder: Path | None, make: Callable[[Path], D]) -> D | None:
    """Open a door in a state folder; without one, or if that fails, there is none, which is logged."""
    if folder is None:
        _log.info("treadle explain is disabled: config.file is not set, or its folder for state is missing")
        return None
    try:
        door = make(folder / EXPLAIN_SOCKET)
    except OSError as error:
        _log.warning("treadle explain is disabled: %s: %s", folder / EXPLAIN_SOCKET, error)
        return None
    door.start()
    _log.info("treadle explain asks at %s", door.path)
    return door


Close = Callable[[str], None]
"""Ends a component before the process ends, given the reason; takes at most a moment."""


def close_all(closing: Sequence[Close], why: str) -> None:
    """Call all functions, even if some fail."""
    for close in closing:
        try:
            close(why)
        except Exception:  # any error: the process ends
            _log.exception("something was not ended well")

"""Processes that this one talks to through a pipe each way: one that it starts, or one behind a socket."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, BinaryIO, cast


class Child:
    """A process of this user's."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        errors: IO[bytes] | None = None,
        group: int | None = None,
    ) -> None:
        """Start it, without a shell.

        Args:
            command: the program and its arguments
            environment: all variables that it gets
            errors: takes its standard error; None: this process's
            group: the process group that it joins; 0: one of its own; None: this process's
        """
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            process_group=group,
        )
        self.stdin, self.stdout = cast(BinaryIO, self.popen.stdin), cast(BinaryIO, self.popen.stdout)

    def kill(self) -> None:
        """End it."""
        self.popen.kill()

    def close(self) -> int:
        """Close the pipes, wait for its end and return its exit status."""
        _close(self.stdin, self.stdout)
        return self.popen.wait()


class Remote:
    """A process behind a socket; it ends when the connection does."""

    def __init__(self, connected: socket.socket) -> None:
        """Take a connection."""
        self._connected = connected
        self.stdin: BinaryIO = connected.makefile("wb")
        self.stdout: BinaryIO = connected.makefile("rb")

    def kill(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        _close(self.stdin, self.stdout, self._connected)


def _close(*streams: BinaryIO | socket.socket) -> None:
    for stream in streams:
        # close() would write what the process has not read once more, and its failure would hide the reason
        with suppress(OSError):
            stream.close()

"""The plan listener's process as the sidecar sees it: one that it starts, or one that is started behind a socket.

The second is of another user: nothing that parses the network is then of the sidecar's user. Something that may
start processes of that user, systemd for example, listens on the socket and starts one for each connection.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Protocol, cast

from treadle.config.trusted_socket import connect

COMMAND: Final = (sys.executable, "-P", "-m", "treadle.live.plan_child")

ALLOCATOR: Final = MappingProxyType({"MALLOC_ARENA_MAX": "2"})
"""glibc gives threads memory from arenas of their own and hardly ever takes it back: requests of a MiB, a thread each,
made a process that kept 2 GiB. A value that is set otherwise is kept."""


class PlanProcess(Protocol):
    """A process that runs."""

    stdin: BinaryIO
    """Where it hears."""
    said: BinaryIO

    def kill(self) -> None:
        """End it; for any thread."""

    def close(self) -> str:
        """Wait for the end where that can be done, and return how it ended."""


class Started:
    """A process of this user's."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # not a session: it would get as much of the processors as this one (`give_way`)
            env={**ALLOCATOR, **os.environ},
        )
        self.stdin, self.said = cast(BinaryIO, self.popen.stdin), cast(BinaryIO, self.popen.stdout)

    def kill(self) -> None:
        """End it."""
        self.popen.kill()

    def close(self) -> str:
        """Wait for the end and return how it ended."""
        # what it no longer reads would be written once more at the end, and fail in place of the reason
        with suppress(OSError):
            self.stdin.close()
        self.said.close()
        return f"the plan listener's process ended with code {self.popen.wait()}"


class Reached:
    """A process behind a socket; it ends when the connection does."""

    def __init__(self, path: Path) -> None:
        """Connect.

        Raises:
            UserError: nobody is there, or others could have put the socket there.
        """
        self._path = path
        self._connected = connect(path, "listener.socket", "treadle-plans.socket")
        self.stdin: BinaryIO = self._connected.makefile("wb")
        self.said: BinaryIO = self._connected.makefile("rb")

    def kill(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> str:
        """Return how it ended, as far as that is known here."""
        for stream in (self.stdin, self.said, self._connected):
            with suppress(OSError):
                stream.close()
        return f"the plan listener behind {self._path} has ended; its own log says why"

"""The process that reads histories as an import sees it: one that it starts, or one that is started behind a socket.

The second is of another user: nothing that parses what users wrote is then of the user who owns the store.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from treadle.history.importers.limits import Limits

MODULE: Final = "treadle.history.importers.process"

_PACKAGE: Final = Path(__file__).resolve().parents[3]
_SECRETS: Final = "TREADLE_"
"""What begins so in the environment, such as the store's URL, is nothing for a process that reads hostile files."""


class ReaderProcess(Protocol):
    """A process that reads histories."""

    def ask(self, request: bytes) -> None:
        """Send a line.

        Raises:
            OSError: nobody reads it.
        """

    def fileno(self) -> int:
        """Return the descriptor from which its answers are read."""

    def end(self) -> None:
        """End it."""

    def obituary(self) -> str:
        """Return why it has ended, once it has."""


class Started:
    """A process of this user's, without what is secret in this one's environment."""

    def __init__(self, limits: Limits) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)}
        environment["PYTHONPATH"] = str(_PACKAGE)
        self._cpu_s = limits.cpu_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self.popen = subprocess.Popen(
            # -P: nothing is imported from the folder in which the command was given
            [sys.executable, "-P", "-m", MODULE, str(limits.memory_mb), str(limits.cpu_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            bufsize=0,
        )

    def ask(self, request: bytes) -> None:
        """Send a line."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(request)

    def fileno(self) -> int:
        """Return the descriptor of its standard output."""
        assert self.popen.stdout is not None
        return self.popen.stdout.fileno()

    def end(self) -> None:
        """Kill it and wait for its end."""
        self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout):
            with suppress(OSError):  # a request that nobody took is still in the buffer
                if stream is not None:
                    stream.close()
        self._errors.close()

    def obituary(self) -> str:
        """Return why it is dead."""
        status = self.popen.wait()
        if status == -signal.SIGXCPU:
            return f"reading it takes more than {self._cpu_s} s of CPU time"
        if status < 0:
            return f"the process that read it was ended by {signal.Signals(-status).name}"
        self._errors.seek(0)
        last = self._errors.read()[-1000:].strip().rpartition(b"\n")[2]
        return f"the process that read it ended with status {status}: {last.decode('utf-8', 'replace')[:500]}"


class Reached:
    """A process of somebody else's behind a connection, with which it ends."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected

    def ask(self, request: bytes) -> None:
        """Send a line."""
        self._connected.sendall(request)

    def fileno(self) -> int:
        """Return the connection's descriptor."""
        return self._connected.fileno()

    def end(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._connected.shutdown(socket.SHUT_RDWR)
        self._connected.close()

    def obituary(self) -> str:
        """Return what is known of its end."""
        return "the process that read it has ended; its own log says why (journalctl -u 'treadle-histories@*')"

"""Processes of another user, started behind a socket as systemd does."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Final

NOBODY: Final = 65_534

AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs")


class Starter:
    """Starts a process for each connection to a socket, as systemd does."""

    def __init__(self, path: Path, command: tuple[str, ...]) -> None:
        self._command = command
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self.started: list[subprocess.Popen[bytes]] = []
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            with connected:
                # an earlier test's process may have named a folder for this user's compiled code
                environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
                self.started.append(
                    subprocess.Popen(
                        self._command, stdin=connected.fileno(), stdout=connected.fileno(), env=environment
                    )
                )

    def close(self) -> None:
        """Start no more, and end what was started."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for process in self.started:
            process.kill()
            process.wait()


def can_change_user() -> bool:
    """Can this process start another one of this Python as nobody?"""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    return (
        subprocess.run([*AS_NOBODY, sys.executable, "-P", "-c", "import treadle"], capture_output=True).returncode == 0
    )

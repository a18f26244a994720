"""Connects to a socket behind which somebody else starts processes of another user, systemd for example."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from treadle.config.trust import reason_against
from treadle.errors import UserError

CONNECT_S: Final = 10.0


def connect(path: Path, setting: str, unit: str) -> socket.socket:
    """Return a connection to a socket that nobody but root and this user could have put there.

    Args:
        path: the socket
        setting: what errors call the setting that names it
        unit: what systemd would start to listen there

    Raises:
        UserError: nobody is there, or others could have put the socket there.
    """
    connected = socket.socket(socket.AF_UNIX)
    try:
        reason = reason_against(path.parent)
        if reason:
            raise UserError(f"{setting}: {reason}")
        connected.settimeout(CONNECT_S)
        connected.connect(str(path))
        connected.settimeout(None)
    except OSError as error:
        connected.close()
        raise UserError(
            f"{setting}: {path}: {error.strerror or error}; start what listens there (systemctl start {unit}), "
            f"for the group of user {os.geteuid()}"
        ) from error
    except UserError:
        connected.close()
        raise
    return connected

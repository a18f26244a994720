"""What another user of this machine gets: a function runs in a process of that user, in tests that run as root."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final

import psutil

STRANGER: Final = 12345
PR_SET_DUMPABLE: Final = 4


def in_child(work: Callable[[], Any], uid: int | None = None) -> Any:
    """Return what a function returns in a child process, as another user if one is given."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        said: Any = None
        try:
            if uid is not None:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # else its files in /proc stay root's
            said = work()
        except BaseException:
            said = traceback.format_exc()
        finally:
            os.write(here, json.dumps(said).encode())
            os._exit(0)
    os.close(here)
    with os.fdopen(there, "rb") as stream:
        said = json.loads(stream.read())
    os.waitpid(child, 0)
    return said


def connects(port: int) -> bool:
    """Say whether something listens on a port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except OSError:
        return False
    return True


def listens(pids: set[int], ports: Iterable[int]) -> list[int]:
    """Return the ports on which one of these processes listens in this process's network namespace.

    Another cluster may use the same numbers here: that a port answers does not say whose it is.
    """
    listening = (each for each in psutil.net_connections("inet") if each.status == psutil.CONN_LISTEN)
    found = {each.laddr.port for each in listening if each.laddr and each.pid in pids}
    return sorted(found & set(ports))

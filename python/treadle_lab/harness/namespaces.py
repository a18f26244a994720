"""Network namespaces: restarts a command where no other process can connect to its ports.

This file is also the program that a command temporarily becomes: it creates or enters the namespace, and executes the
command again. Users without the right to create a network namespace create it in a user namespace that keeps their ID.
It imports only Python's own modules.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final, NoReturn

NEW_USER: Final = 0x10000000
NEW_NET: Final = 0x40000000
GET_FLAGS: Final = 0x8913
SET_FLAGS: Final = 0x8914
UP: Final = 1
REQUEST: Final = struct.Struct("16sh22x")
"""The kernel's ifreq: the name of an interface, its flags."""

OUTCOME: Final = "TREADLE_NAMESPACE"
"""The variable by which the program says what became of it: its process id, why it failed."""
NEW: Final = "new"


def isolate() -> str:
    """Go on in a new network namespace with nothing but loopback: the command begins again there.

    Returns: when it has begun again, why there is no such namespace; empty if there is.
    """
    return _moved(NEW)


def enter(process: int) -> str:
    """Go on in the network namespace of a process, unless this is the same: the command begins again there.

    Returns: when it has begun again, why that cannot be entered; empty if it is there.
    """
    try:
        same = Path(f"/proc/{process}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError as error:
        return error.strerror or str(error)
    return "" if same else _moved(str(process))


def was_moved() -> bool:
    """Return whether this process is in a namespace created by `isolate` or entered by `enter`."""
    return os.environ.get(OUTCOME) == f"{os.getpid()} "


def _moved(where: str) -> str:
    process, _, failure = os.environ.get(OUTCOME, "").partition(" ")
    if process != str(os.getpid()):
        sys.stdout.flush()
        sys.stderr.flush()
        _become([sys.executable, "-I", "-S", __file__, where, sys.executable, *sys.orig_argv[1:]])
    return failure


def _become(command: list[str]) -> NoReturn:
    os.execv(command[0], command)  # noqa: S606, the command that already runs


def _make() -> None:
    """Make a network namespace and bring its loopback interface up."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NET) != 0:
        _check(libc.unshare(NEW_USER | NEW_NET))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket() as any_socket:
        name, flags = REQUEST.unpack(fcntl.ioctl(any_socket, GET_FLAGS, REQUEST.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, SET_FLAGS, REQUEST.pack(name, flags | UP))


def _join(process: int) -> None:
    """Enter the network namespace of a process, by way of its user namespace if need be."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{process}/ns/net").open("rb") as net, Path(f"/proc/{process}/ns/user").open("rb") as user:
        if libc.setns(net.fileno(), NEW_NET) != 0:
            _check(libc.setns(user.fileno(), NEW_USER))
            _check(libc.setns(net.fileno(), NEW_NET))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _go(where: str) -> None:
    if where == NEW:
        _make()
    else:
        _join(int(where))


def _failure(where: str) -> str:
    """Try it in a process that ends; return why it fails, or nothing. What fails halfway cannot be taken back."""
    child = os.fork()
    if child == 0:
        try:
            _go(where)
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return os.strerror(number) if number else ""


def main() -> None:
    """Make or enter a namespace, and become the command that the arguments end with."""
    where, *command = sys.argv[1:]
    failure = _failure(where)
    if not failure:
        _go(where)
    os.environ[OUTCOME] = f"{os.getpid()} {failure}"
    _become(command)


if __name__ == "__main__":
    main()

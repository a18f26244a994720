"""Network namespaces: restarts a command where no other process can connect to its ports.

This file is also a program: a command replaces itself by it (exec), it creates or enters the namespace, and replaces
itself by the command, which starts from the beginning. Users without the right to create a network namespace create it
in a user namespace that keeps their ID. It imports only the standard library.
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
"""Environment variable with the program's result: its process ID, a blank and why it failed, empty if it did not."""
NEW: Final = "new"


def isolate() -> str:
    """Restart the command in a new network namespace that has only loopback; does not return the first time.

    Returns: in the restarted command, why there is no such namespace; empty if there is one.
    """
    return _restart_in(NEW)


def enter(process: int) -> str:
    """Restart the command in the network namespace of a process, unless it is in the same one already.

    Returns: in the restarted command, why the namespace cannot be entered; empty if the command is in it.
    """
    try:
        same = Path(f"/proc/{process}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError as error:
        return error.strerror or str(error)
    return "" if same else _restart_in(str(process))


def was_moved() -> bool:
    """Return whether this process is in a namespace created by `isolate` or entered by `enter`."""
    return os.environ.get(OUTCOME) == f"{os.getpid()} "


def _restart_in(where: str) -> str:
    process, _, failure = os.environ.get(OUTCOME, "").partition(" ")
    if process != str(os.getpid()):
        sys.stdout.flush()
        sys.stderr.flush()
        _exec([sys.executable, "-I", "-S", __file__, where, sys.executable, *sys.orig_argv[1:]])
    return failure


def _exec(command: list[str]) -> NoReturn:
    os.execv(command[0], command)  # noqa: S606, the command that already runs


def _make() -> None:
    """Enter a new network namespace and bring its loopback interface up."""
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


def _change_namespace(where: str) -> None:
    if where == NEW:
        _make()
    else:
        _join(int(where))


def _failure(where: str) -> str:
    """Try the change in a child process, since a failure halfway cannot be undone; return why it fails, or nothing."""
    child = os.fork()
    if child == 0:
        try:
            _change_namespace(where)
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
        _change_namespace(where)
    os.environ[OUTCOME] = f"{os.getpid()} {failure}"
    _exec(command)


if __name__ == "__main__":
    main()

"""Checks which users could modify a path, and locates a sidecar's state.

A treadle.yaml names files that are executed. A user who may write to one of them, or rename a folder above it and put
another in its place, runs code as the ResourceManager's user. So only root and this process's user may have that
access; sshd checks its keys in the same way.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import socket
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from treadle.errors import UserError

TRUST_OPTION: Final = "--trust-code"
"""Runs the Python code that recordings, scenarios and sweeps name."""

LINKS_MAX: Final = 40
"""Maximum number of symbolic links to follow, as in Linux."""


def untrusted(code: str) -> str:
    """Return why Python code named by a recording, a scenario or a sweep is not executed, and the remedy."""
    return f"{code!r} is Python code, which runs only with {TRUST_OPTION}; give that for files whose author you trust"


def trusted_owners() -> frozenset[int]:
    """Return the allowed owners of trusted files: root, and the user of this process."""
    return frozenset({0, os.geteuid()})


def reason_against(path: Path, owners: Collection[int] | None = None) -> str:
    """Return why other users could change a path's content, with the remedy; empty if they cannot.

    Checks the owner and the write permissions of group and others, for the file, every folder above it and every
    symbolic link on the way. In a folder with the sticky bit, such as /tmp, users can rename only their own files.

    Args:
        path: a file or folder
        owners: allowed owners; defaults to `trusted_owners`

    Raises:
        OSError: it is missing, or cannot be checked.
    """
    owners = trusted_owners() if owners is None else owners
    for at, status in _steps(path):
        if status.st_uid not in owners and not (0 in owners and _is_roots(at, status)):
            allowed = " or ".join(f"{user_name(each)}'s" for each in sorted(owners) if each >= 0)
            return f"{at} belongs to {user_name(status.st_uid)}; it must be {allowed}"
        mode = status.st_mode
        if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            continue
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            who = "everybody" if mode & stat.S_IWOTH else "its group"
            return f"{at} may be written by {who}; take that right away with chmod go-w {at}"
    return ""


def read_own(path: Path, bytes_max: int) -> bytes:
    """Return the content of a regular file that only root and this process's user may write.

    Raises:
        OSError: it is longer, a link or no regular file, others may have written it, or it cannot be read.
    """
    # a pipe in the file's place is not waited for, and no link is followed
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_uid not in trusted_owners() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EPERM, "others may have written it", str(path))
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"longer than {bytes_max} bytes", str(path))
    return content


def _is_roots(at: Path, status: os.stat_result) -> bool:
    """Return whether root owns a path, in a user namespace without root.

    There, files of root and of all other outside users have one user ID. Where only root and this process's user may
    write to the parent folder, they count as root's, except for homes of other accounts.
    """
    if status.st_uid != _number_of_strangers() or str(at) in _homes_of_others():
        return False
    return not at.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


_FIRST_ACCOUNT: Final = 1000
"""Accounts below are system accounts; some of their homes are owned by root."""


@cache
def _homes_of_others() -> frozenset[str]:
    accounts = (each for each in pwd.getpwall() if each.pw_uid >= _FIRST_ACCOUNT and each.pw_uid != os.geteuid())
    return frozenset(each.pw_dir for each in accounts)


@cache
def _number_of_strangers() -> int:
    """Return the ID of all outside users in a user namespace without root; -1 where root has its own ID."""
    known = [line.split()[0] for line in Path("/proc/self/uid_map").read_text("utf-8").splitlines()]
    return -1 if "0" in known else int(Path("/proc/sys/kernel/overflowuid").read_text("utf-8"))


def _steps(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield all components of a path: links and their targets."""
    here, links = Path("/"), 0
    yield here, here.lstat()
    left = list(reversed(path.absolute().parts))
    while left:
        name = left.pop()
        if name in {"/", "//"}:
            here = Path("/")
        elif name == "..":
            here = here.parent
        else:
            at = here / name
            status = at.lstat()
            yield at, status
            if not stat.S_ISLNK(status.st_mode):
                here = at
                continue
            links += 1
            if links > LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            left += reversed(at.readlink().parts)


def user_name(number: int) -> str:
    """Return a user's name, or the number if there is none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


CONNECT_S: Final = 10.0


def connect(path: Path, setting: str, unit: str) -> socket.socket:
    """Return a connection to a socket that only root and this user could have created.

    Args:
        path: the socket
        setting: name in errors of the setting with the path
        unit: the systemd unit that listens there

    Raises:
        UserError: no process listens, or other users could have created the socket.
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


EXPLAIN_SOCKET: Final = "explain.sock"
"""Name of the socket of `treadle explain` in the state folder."""


def bases_of_user(environment: Mapping[str, str]) -> list[str]:
    """Return the folders for a user's program state, from environment variables, the likeliest first."""
    home = environment.get("HOME", "")
    return list(filter(None, (environment.get("XDG_STATE_HOME", ""), f"{home}/.local/state" if home else "")))


def state_folders(config: Path, engine: str, bases: Iterable[str]) -> list[Path]:
    """Return possible state folders of a sidecar with a treadle.yaml, the likeliest first.

    Args:
        config: the treadle.yaml
        engine: name of one of several engines, unless it is the first; else empty
        bases: fallbacks if the file's own folder is not writable; relative ones are skipped
    """
    config = config.absolute()
    if engine:
        config = config.with_name(f"{config.name}.{engine}")
    name = f"{config.name}-{hashlib.sha256(str(config).encode()).hexdigest()[:12]}"
    kept = [Path(base) / "treadle" / name for base in bases if Path(base).is_absolute()]
    return [config.parent / f".{config.name}.state", *kept]

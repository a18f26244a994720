"""Where `treadle install` has put things, by what it has written."""

from __future__ import annotations

import pwd
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from treadle.admin.host.env_script import jar_in
from treadle.admin.host.environment import JAR
from treadle.admin.host.manifest import NAME, read_manifest
from treadle.admin.host.place import BYTES_MAX
from treadle.admin.host.plan import DEFAULT_PREFIX, DEFAULT_SYSTEMD, UNIT
from treadle.config.trust import reason_against, trusted_owners
from treadle.errors import UserError
from treadle.files import read_regular

_COMMAND: Final = "bin/treadle"
_STARTS: Final = re.compile(rf"^ExecStart=(/\S+)/{_COMMAND} ", re.MULTILINE)


def found_prefix(conf: Path | None, *, trusted: bool, systemd: Path = DEFAULT_SYSTEMD) -> Path:
    """Return the prefix of an installation on this host, the usual one if none is found.

    Looked at are the environment that this command runs from, the line that puts the jar on the class path, and the
    unit of an external sidecar, in this order.

    Args:
        conf: the ResourceManager's HADOOP_CONF_DIR, if it is known
        trusted: take only what nobody but root and this user could have written: it says what is to be undone
        systemd: the folder of units
    """
    releases = chain([Path(sys.prefix)], () if conf is None else _of_jar(conf), _of_unit(systemd / UNIT))
    return _first_installed(releases, trusted)


def prefix_for(conf: Path) -> Path:
    """Return the prefix of the installation whose jar a ResourceManager loads, for the next one; else the usual one."""
    return _first_installed(_of_jar(conf), trusted=True)


def installed_user(prefix: Path) -> str:
    """Return the sidecar's user as `treadle install` has recorded it; empty if others could have written the record."""
    with suppress(UserError, OSError):
        if not reason_against(prefix / NAME):
            known = read_manifest(prefix)
            return known.user if known is not None else ""
    return ""


def sidecar_users() -> frozenset[int]:
    """Return whose processes and sockets may be the sidecar's: root's, this user's, and the installation's."""
    with suppress(KeyError):
        installed = pwd.getpwnam(installed_user(found_prefix(None, trusted=True)))
        return trusted_owners() | {installed.pw_uid}
    return trusted_owners()


def _first_installed(releases: Iterable[Path], trusted: bool) -> Path:
    """Return the first prefix of a release, PREFIX/RELEASE, that is an installation's."""
    for release in releases:
        record = release.parent / NAME
        with suppress(OSError):  # what this user may not look at, or no file can be called
            if record.is_file() and not (trusted and reason_against(record)):
                return release.parent
    return DEFAULT_PREFIX


def _of_jar(conf: Path) -> Iterator[Path]:
    jar = jar_in(_content(conf / "yarn-env.sh"))
    if jar is not None and jar.match(f"*/{JAR}"):
        yield jar.parents[1]


def _of_unit(unit: Path) -> Iterator[Path]:
    starts = _STARTS.search(_content(unit).decode("utf-8", "replace"))
    if starts is not None:
        yield Path(starts[1])


def _content(path: Path) -> bytes:
    """Return what is in a file; nothing if it is not there, or not for this user."""
    try:
        return read_regular(path, BYTES_MAX)
    except OSError:
        return b""

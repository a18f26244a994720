"""Which sidecars run on this host.

The user that starts a process chooses its words. So they only distinguish processes of trusted users: nothing in them
is run, or taken for a path.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil

_KINDS: Final = {"--managed", "--external"}


def sidecars(users: Collection[int] | None = None) -> list[psutil.Process]:
    """Return the processes of sidecars that this user may look at.

    Args:
        users: only processes count whose real and effective user is one of these; None: all count
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            uids = process.uids()
            if (users is None or {uids.real, uids.effective} <= set(users)) and _is_sidecar(process):
                found.append(process)
    return found


def is_of(sidecar: psutil.Process, urls: Collection[str]) -> bool:
    """Is a sidecar external, or does a process above it serve the pages at one of these addresses?"""
    ports = {urlsplit(url if "://" in url else f"http://{url}").port for url in urls}
    with suppress(psutil.Error, OSError):
        return "--external" in sidecar.cmdline() or any(_listens(each, ports) for each in sidecar.parents())
    return False


def _is_sidecar(process: psutil.Process) -> bool:
    """Look at the words, and at which program runs: `sudo` and the like run as root with words of any user."""
    words = process.cmdline()
    if "sidecar" not in words or _KINDS.isdisjoint(words):
        return False
    return Path(f"/proc/{process.pid}/exe").readlink().name.startswith("python")


def _listens(process: psutil.Process, ports: Collection[int | None]) -> bool:
    with suppress(psutil.Error, OSError):
        found = process.net_connections("tcp")
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port in ports for each in found)
    return False

"""Which ResourceManagers and sidecars run on this host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import psutil

_MAIN: Final = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"


def resource_managers() -> list[psutil.Process]:
    """Return the processes of ResourceManagers that this user may look at."""
    return list(_processes(lambda words: _MAIN in words))


def sidecars() -> list[psutil.Process]:
    """Return the processes of sidecars that this user may look at."""
    return list(
        _processes(
            lambda words: (
                "sidecar" in words
                and bool({"--managed", "--external"} & set(words))
                and any("python" in word for word in words[:1])
            )
        )
    )


def _processes(is_one: Callable[[list[str]], bool]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if is_one(process.cmdline()):
                yield process

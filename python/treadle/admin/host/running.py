"""Which ResourceManagers and sidecars run on this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

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


def of_cluster(masters: list[psutil.Process], conf: Path | None, urls: Collection[str]) -> list[psutil.Process]:
    """Return those ResourceManagers of this host that are meant: it may run those of several clusters.

    Args:
        masters: all of them
        conf: the folder whose settings they read; None: their pages decide
        urls: addresses of their pages, as far as they are known; none: all are meant
    """
    if conf is not None:
        return [each for each in masters if _reads(each, conf)]
    ports = {urlsplit(url if "://" in url else f"http://{url}").port for url in urls}
    return [each for each in masters if not urls or _listens(each, ports)]


def masters_besides(url: str) -> set[int]:
    """Return the process ids of the ResourceManagers of this host that do not serve the pages at an address."""
    masters = resource_managers()
    return {each.pid for each in masters} - {each.pid for each in of_cluster(masters, None, [url])}


def class_path_of(master: psutil.Process) -> list[str]:
    """Return what may be on a ResourceManager's class path: parts of its words, and of CLASSPATH."""
    words: list[str] = []
    with suppress(psutil.Error, OSError):
        words += master.cmdline()
        words.append(master.environ().get("CLASSPATH", ""))  # where Hadoop's scripts put it
    return [part for word in words for part in word.split(":")]


def _reads(master: psutil.Process, conf: Path) -> bool:
    folder = os.path.realpath(conf)
    return any(part.startswith("/") and os.path.realpath(part) == folder for part in class_path_of(master))


def _listens(master: psutil.Process, ports: Collection[int | None]) -> bool:
    with suppress(psutil.Error, OSError):
        found = master.net_connections("tcp")
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port in ports for each in found)
    return False


def _processes(is_one: Callable[[list[str]], bool]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if is_one(process.cmdline()):
                yield process

"""A mini cluster's folder, its addresses, and the file that remembers them between two commands."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from treadle.files import write_whole
from treadle_lab.minicluster.settings import ClusterError

MARK: Final = ".treadle-minicluster"
"""A file that says: all that is in this folder was made by a mini cluster."""


def make_anew(folder: Path) -> None:
    """Make an empty folder for a cluster; what an earlier cluster left there is removed.

    Raises:
        ClusterError: there are files of somebody else, or the folder cannot be made.
    """
    mark = folder / MARK
    try:
        if folder.is_dir() and any(folder.iterdir()) and not mark.is_file():
            raise ClusterError(
                f"{folder} is not empty, and what is in it was not made by a mini cluster: nothing was touched; "
                "choose another folder, or empty it yourself"
            )
        if folder.is_dir():
            _empty(folder)
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError as error:
        raise ClusterError(f"{folder} cannot be a cluster's folder: {error.strerror or error}") from error


def _empty(folder: Path) -> None:
    """Remove all but the mark, which goes last: a removal that is broken off can be taken up again."""
    for entry in sorted(folder.iterdir()):
        if entry.name == MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes ports for outgoing connections: none is lost between choice and use.
FIRST, LAST = 20000, 32000
SLICE = 200
"""Ports that a process tries first, other ones than its neighbours: what two choose at a time is not bound at once."""


_chosen_in: dict[int, int] = {}
"""The call in which this process chose a port last; the program that it is for may not listen yet."""


def free_ports(count: int) -> list[int]:
    """Choose `count` different ports that nothing listens on; those of recent calls come last.

    Raises:
        ClusterError: there are not that many.
    """
    start = FIRST + os.getpid() % ((LAST - FIRST) // SLICE) * SLICE
    own, others = list(range(start, start + SLICE)), [*range(FIRST, start), *range(start + SLICE, LAST)]
    random.shuffle(own)
    random.shuffle(others)
    chosen: list[int] = []
    with ExitStack() as held:
        for port in [*sorted(own, key=_last_chosen), *sorted(others, key=_last_chosen)]:
            if len(chosen) == count:
                break
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            chosen.append(port)
    if len(chosen) < count:
        raise ClusterError(
            f"fewer than {count} free ports between {FIRST} and {LAST}; stop something that listens there"
        )
    _chosen_in.update(dict.fromkeys(chosen, 1 + max(_chosen_in.values(), default=0)))
    return chosen


def _last_chosen(port: int) -> int:
    return _chosen_in.get(port, 0)


_RM_PORTS = 5
_NM_PORTS = 3


@dataclass
class ProcessRecord:
    """A process of the cluster; its creation time distinguishes it from a later one with the same id."""

    name: str
    pid: int
    created: float


@dataclass
class Layout:
    """Where a cluster keeps its files and listens."""

    folder: Path
    rm_ports: list[int]
    nm_ports: list[list[int]]
    scheduler: str = ""
    waits_for_lease: bool = False
    named_nodes: bool = False
    """Has each node a name and an address of its own?"""
    processes: list[ProcessRecord] = field(default_factory=list)

    @classmethod
    def create(cls, folder: Path, nodes: int, named_nodes: bool = False) -> Layout:
        """Choose free ports for a cluster of `nodes` NodeManagers under `folder`."""
        ports = free_ports(_RM_PORTS + nodes * _NM_PORTS)
        rest = ports[_RM_PORTS:]
        of_nodes = [rest[i * _NM_PORTS : (i + 1) * _NM_PORTS] for i in range(nodes)]
        return cls(folder, ports[:_RM_PORTS], of_nodes, named_nodes=named_nodes)

    @property
    def conf(self) -> Path:
        """The HADOOP_CONF_DIR."""
        return self.folder / "conf"

    @property
    def logs(self) -> Path:
        """Where every process of the cluster logs."""
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        """The RM's audit log: a line for every container allocated and released."""
        return self.logs / "rm-audit.log"

    @property
    def sidecar_log(self) -> Path:
        """What a managed sidecar writes to its standard error."""
        return self.logs / "treadle-sidecar.log"

    @property
    def rm_url(self) -> str:
        """The RM's web address."""
        return f"http://{LOOPBACK}:{self.rm_ports[4]}"

    def node_folder(self, number: int) -> Path:
        """Return the folder of node `number` (from 1)."""
        return self.folder / f"nm{number}"

    def node_host(self, number: int) -> str:
        """Return the host name of node `number` (from 1)."""
        return f"node{number}" if self.named_nodes else "localhost"

    def node_address(self, number: int) -> str:
        """Return the loopback address of node `number` (from 1)."""
        return f"127.0.1.{number}" if self.named_nodes else LOOPBACK

    def node_id(self, number: int) -> str:
        """YARN's name of node `number` (from 1)."""
        return f"{self.node_host(number)}:{self.nm_ports[number - 1][0]}"

    @property
    def state_file(self) -> Path:
        """The file that `save` writes."""
        return self.folder / "cluster.json"

    def save(self) -> None:
        """Remember the cluster, its processes included."""
        text = json.dumps({**asdict(self), "folder": str(self.folder)}, indent=1)
        write_whole(self.state_file, text)

    @classmethod
    def load(cls, folder: Path) -> Layout | None:
        """Return what `save` wrote, or None if there is no cluster in `folder`.

        Raises:
            ClusterError: the file is not one that `save` wrote.
        """
        file = folder / "cluster.json"
        if not file.is_file():
            return None
        try:
            values = json.loads(file.read_text())
            records = [ProcessRecord(**record) for record in values.pop("processes")]
            return cls(**{**values, "folder": folder, "processes": records})
        except (ValueError, TypeError, KeyError) as error:
            raise ClusterError(f"{file} is damaged ({error}); remove the folder {folder}") from error

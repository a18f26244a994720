"""Several engines on a mini cluster: their sidecars, what the RM says of them, and when one's applications went on."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil

from treadle.lab.minicluster.cluster import MiniCluster

_BEAN: Final = "Hadoop:service=ResourceManager,name=Treadle"
_TIME: Final = r"^(\S+ \d+:\d+:\d+,\d+) "
_ALLOCATED: Final = re.compile(_TIME + r".*AM Allocated Container.*APPID=(\S+)")


def bean_of(cluster: MiniCluster, engine: str) -> dict[str, Any]:
    """Return what the RM says of an engine; nothing while it is not there."""
    return cluster.rm.bean(f"{_BEAN}Engine-{engine}")


def served_by(cluster: MiniCluster) -> dict[str, str]:
    """Return who serves each engine's applications now; nothing while there is one engine."""
    engines = json.loads(cluster.rm.bean(f"{_BEAN}Engines").get("Engines", "{}")).get("engines", {})
    return {name: str(life["served_by"]) for name, life in engines.items()}


def owner_of(cluster: MiniCluster, application_id: str) -> tuple[str, str]:
    """Return whose an application is, and who serves it; empty while no engine has seen it."""
    applications = json.loads(cluster.rm.bean(f"{_BEAN}Engines").get("Engines", "{}")).get("applications", {})
    home, owner, *_ = applications.get(application_id, ("", ""))
    return str(home), str(owner)


def sidecar_of(cluster: MiniCluster, engine: str, first: str) -> psutil.Process | None:
    """Return an engine's sidecar, None while there is none; the first engine's is started without a name."""
    for pid in cluster.sidecar_pids():
        try:
            process = psutil.Process(pid)
            command = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        name = command[command.index("--engine") + 1] if "--engine" in command else first
        if name == engine:
            return process
    return None


def lost_at_s(cluster: MiniCluster, engine: str, *, first: str, after_s: float) -> float | None:
    """Return when the RM found that an engine has lost its lease, by its log: the first time after another.

    The log names the first engine once there are others.
    """
    name = f"(?: {re.escape(engine)})?" if engine == first else f" {re.escape(engine)}"
    lost = re.compile(_TIME + rf".*Treadle's engine{name} has lost the lease")
    log = cluster.layout.logs / "rm.log"
    return next((at for at, _ in _lines(log, lost) if at >= after_s), None)


def allocated_at_s(cluster: MiniCluster, application_id: str, after_s: float) -> float | None:
    """Return when the RM allocated a container to an application, by its audit log: the first time after another."""
    found = _lines(cluster.layout.audit_log, _ALLOCATED)
    return next((at for at, application in found if application == application_id and at >= after_s), None)


def _lines(log: Path, wanted: re.Pattern[str]) -> list[tuple[float, str]]:
    """Return the times, seconds since 1970, of the lines that match, each with its second group."""
    found = []
    for line in log.read_text("utf-8", "replace").splitlines():
        if match := wanted.search(line):
            at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
            found.append((at, match[2] if wanted.groups > 1 else ""))
    return found

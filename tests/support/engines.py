"""Several engines on a mini cluster: their sidecars, what the RM says of them, and when one's applications went on."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil

from treadle_lab.demo.run import roster_of
from treadle_lab.minicluster.cluster import MiniCluster

_TIME: Final = r"^(\S+ \d+:\d+:\d+,\d+) "
ENGINE: Final = "treadle.live.engine_child"
_ALLOCATED: Final = re.compile(_TIME + r".*AM Allocated Container.*APPID=(\S+)")


def figures_of(cluster: MiniCluster, engine: str) -> dict[str, Any]:
    """Return what is shown of an engine; nothing while it is not there."""
    return dict(roster_of(cluster).get("engines", {}).get(engine, {}))


def served_by(cluster: MiniCluster) -> dict[str, str]:
    """Return who serves each engine's applications now; nothing while there is one engine."""
    return {name: str(each["served_by"]) for name, each in roster_of(cluster).get("engines", {}).items()}


def owner_of(cluster: MiniCluster, application_id: str) -> tuple[str, str]:
    """Return whose an application is, and who serves it; empty while no engine has seen it."""
    home, owner, *_ = roster_of(cluster).get("applications", {}).get(application_id, ("", ""))
    return str(home), str(owner)


def process_of(cluster: MiniCluster, engine: str) -> psutil.Process | None:
    """Return an engine's process, None while there is none."""
    for pid in cluster.sidecar_pids():
        try:
            for child in psutil.Process(pid).children():
                command = child.cmdline()
                if ENGINE in command and engine in command[command.index(ENGINE) + 1 :]:
                    return child
        except psutil.NoSuchProcess:
            continue
    return None


def lost_at_s(cluster: MiniCluster, engine: str, *, after_s: float) -> float | None:
    """Return when the sidecar found that an engine is dead, by its log: the first time after another."""
    lost = re.compile(_TIME + rf".*engine {re.escape(engine)} is dead")
    return next((at for at, _ in _lines(cluster.layout.sidecar_log, lost) if at >= after_s), None)


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

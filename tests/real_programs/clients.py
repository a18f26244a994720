"""Client programs of a part: run to their end, their output in the cluster's logs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.real_programs.account import ProgramError

from treadle_lab.minicluster import processes
from treadle_lab.minicluster.cluster import MiniCluster

CLIENT_S = 300.0
_TAIL = 600


def start(
    cluster: MiniCluster, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a client in the background; returns it and its log. The cluster's stop ends it if it still runs."""
    log = cluster.layout.logs / f"client-{name}.log"
    with log.open("ab") as out:
        client = subprocess.Popen(
            command,
            env={**cluster.environment(), **(environment or {}), processes.MARK: str(cluster.folder)},
            cwd=cluster.folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return client, log


def finish(name: str, client: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for a client's end; returns its output.

    Raises:
        ProgramError: it failed, or did not end in time.
    """
    try:
        code = client.wait(CLIENT_S)
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()
        raise ProgramError(f"{name} did not end within {CLIENT_S:g} s; its output is {log}") from None
    output = log.read_text(errors="replace")
    if code:
        raise ProgramError(f"{name} ended with {code}: {output.strip()[-_TAIL:]}; its output is {log}")
    return output


def run(cluster: MiniCluster, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a client to its end; returns its output.

    Raises:
        ProgramError: it failed, or did not end in time.
    """
    return finish(name, *start(cluster, name, command, environment))

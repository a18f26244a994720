"""The hub of a sidecar whose treadle.yaml names several engines: each gets a process of its own."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Condition
from typing import Final

from treadle.config.engines import RosterEngine
from treadle.config.errors import ConfigError, Problem
from treadle.config.reader import read_roster
from treadle.config.trust import reason_against
from treadle.live.closing import Close
from treadle.sidecar.child import CLOSE_S, ChildProcess
from treadle.sidecar.hub import Hub

_log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "treadle.live.engine_child")


def open_hub(config: Path, roster: Sequence[RosterEngine], closing: list[Close]) -> Hub:
    """Return a hub whose engines are being started.

    Args:
        config: treadle.yaml
        roster: its engines
        closing: gets what is to be called before the process ends
    """
    reading = ThreadPoolExecutor(1, "roster")
    children: list[ChildProcess] = []

    def make(row: RosterEngine, changed: Condition) -> ChildProcess:
        children.append(ChildProcess(row.name, (*COMMAND, str(config), row.name), changed))
        return children[-1]

    def read() -> Future[Sequence[RosterEngine]]:
        return reading.submit(_trusted_roster, config)

    hub = Hub(roster, make, clock_ns=time.monotonic_ns, read_roster=read)

    def close(_: str) -> None:
        for child in children:
            child.close()
        until_s = time.monotonic() + CLOSE_S
        for child in children:
            child.join(until_s - time.monotonic())

    closing.append(close)
    return hub


def _trusted_roster(config: Path) -> Sequence[RosterEngine]:
    reason = reason_against(config)
    if reason:
        raise ConfigError(str(config), [Problem(0, "", reason)])
    return read_roster(config)

"""Where `treadle explain` asks a sidecar: a Unix socket of its user's own, one question at a time.

The model is copied between two frames, some milliseconds for a large cluster, and looked through by another process
(`treadle.live.explain_process`).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final

import numpy as np

from treadle.config.state_folders import EXPLAIN_SOCKET
from treadle.engine import Engine
from treadle.errors import printable
from treadle.events import NodeState
from treadle.explain.situation import Situation
from treadle.live.explain_process import Action, ExplainProcess, Look, Question
from treadle.live.roles import DecisionEngine

_log = logging.getLogger(__name__)

ASKED_BYTES_MAX: Final = 4096
WAIT_S: Final = 5.0
"""Who connects must ask, and take the answer, within this time."""

_WAITING_MAX: Final = 4
_CREDENTIALS: Final = struct.Struct("3i")

READY_AFTER_S: Final = 30.0
"""The process that explains is started so long after the sidecar, whose own start is waited for, or with a question."""

Held = Callable[[], list[dict[str, Any]]]

HELD_MAX: Final = 1000


class ExplainDoor:
    """Answers root and this process's user."""

    def __init__(self, path: Path, look: Look, held: Held) -> None:
        """Open the socket.

        Args:
            path: where; a socket that an earlier sidecar left there is replaced
            look: shows the engine's situation
            held: returns which nodes are held for whom

        Raises:
            OSError: it cannot be opened.
        """
        self.path = path
        self._held, self._process = held, ExplainProcess(look)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            path.unlink()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listening.bind(str(path))
            path.chmod(0o600)  # nobody is let in before it listens
            self._listening.listen(_WAITING_MAX)
        except OSError:
            self._listening.close()
            raise

    def start(self) -> None:
        """Answer from now on, on a thread that nobody waits for at the end of the process."""
        Thread(target=self._serve, name="explain", daemon=True).start()

    def close(self) -> None:
        """Answer no more. The process that explains ends with the thread, when a question that it has is answered."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # else who waits in accept() goes on doing so
        self._listening.close()
        with suppress(OSError):
            self.path.unlink()

    def _serve(self) -> None:
        try:
            self._listening.settimeout(READY_AFTER_S)
            while True:
                try:
                    connected, _ = self._listening.accept()
                except TimeoutError:
                    self._process.start()
                    self._listening.settimeout(None)
                else:
                    self._take(connected)
        except OSError:
            self._process.close()

    def _take(self, connected: socket.socket) -> None:
        with connected:
            try:
                connected.settimeout(WAIT_S)
                self._answer(connected)
            except Exception as error:  # one question that fails is no concern of the next
                _log.warning("a question was not answered: %s", printable(str(error)))

    def _answer(self, connected: socket.socket) -> None:
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if not answers(_CREDENTIALS.unpack(credentials)[1]):
            return
        with connected.makefile("rb") as stream:
            line = stream.readline(ASKED_BYTES_MAX)
        connected.sendall(self._answer_to(line) + b"\n")

    def _answer_to(self, line: bytes) -> bytes:
        try:
            asked = json.loads(line)
            if asked.get("held") is True:
                return json.dumps({"held": self._held()}).encode()
            application, ask, node = str(asked["application"]), asked.get("ask"), str(asked.get("node") or "")
            ask = None if ask is None else int(ask)
        except (ValueError, KeyError, TypeError, AttributeError):
            return b'{"error": "not a question: use the `treadle` of the sidecar\'s release"}'
        return self._process.answer(Question(application, ask, node))


def shown(engine: DecisionEngine, action: Action) -> Any:
    """Return what an action makes of an engine's situation; None before its first snapshot."""
    situation = Situation.of(engine) if isinstance(engine, Engine) else None
    return None if situation is None else action(situation)


def held_nodes(engine: DecisionEngine) -> list[dict[str, Any]]:
    """Return which nodes an engine keeps free for asks, for which applications, and for how much longer at most."""
    situation = Situation.of(engine) if isinstance(engine, Engine) else None
    if situation is None:
        return []
    nodes = situation.view.nodes
    found = []
    for node in np.flatnonzero((nodes["hold_row"] >= 0) & (nodes["state"] != NodeState.GONE))[:HELD_MAX].tolist():
        application = int(situation.view.rows["application"][nodes["hold_row"][node]])
        if application >= 0:
            left_ms = max(int(nodes["hold_until_ms"][node]) - situation.now_ms, 0)
            whose = situation.application_id(application)
            found.append({"node": situation.node_name(node), "application": whose, "left_ms": left_ms})
    return found


def answers(user: int) -> bool:
    """Say whether a user is answered: root, and this process's own."""
    return user in (0, os.geteuid())


def open_door(folder: Path | None, look: Look, held: Held = list) -> ExplainDoor | None:
    """Open a sidecar's door in its state folder; without one, or if that fails, there is none, which is logged."""
    if folder is None:
        _log.info("treadle explain has nobody to ask: there is no config.file, or no folder for its state")
        return None
    try:
        door = ExplainDoor(folder / EXPLAIN_SOCKET, look, held)
    except OSError as error:
        _log.warning("treadle explain has nobody to ask: %s: %s", folder / EXPLAIN_SOCKET, error)
        return None
    door.start()
    _log.info("treadle explain asks at %s", door.path)
    return door

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
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import numpy as np

from treadle.config.state_folders import EXPLAIN_SOCKET
from treadle.engine import Engine
from treadle.errors import printable
from treadle.events import NodeState
from treadle.explain.situation import Situation
from treadle.live.explain_child import failed
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

AGAIN_S: Final = 1.0
"""Until it is tried again to let somebody in, where the system had nothing left for that."""


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
        self._closed = Event()
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
        self._closed.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # else who waits in accept() goes on doing so
        self._listening.close()
        with suppress(OSError):
            self.path.unlink()

    def _serve(self) -> None:
        with suppress(OSError):
            self._listening.settimeout(READY_AFTER_S)
        why = ""
        while not self._closed.is_set():
            try:
                self._next()
                why = ""
            except OSError as error:  # too many open files, say: that passes, or this door has been closed
                if str(error) != why and not self._closed.is_set():
                    why = str(error)
                    _log.warning("nobody can ask why applications wait, which is tried again: %s", why)
                self._closed.wait(AGAIN_S)
        self._process.close()

    def _next(self) -> None:
        try:
            connected, _ = self._listening.accept()
        except TimeoutError:
            self._process.start()
            self._listening.settimeout(None)
        else:
            self._take(connected)

    def _take(self, connected: socket.socket) -> None:
        with connected:
            try:
                self._answer(connected)
            except Exception as error:  # one that asks and goes, or is too slow, is no concern of the next
                _log.warning("a question was not answered: %s", printable(str(error)))

    def _answer(self, connected: socket.socket) -> None:
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if not answers(_CREDENTIALS.unpack(credentials)[1]):
            return
        answer = self._answer_to(_asked(connected, time.monotonic() + WAIT_S))
        connected.settimeout(WAIT_S)
        connected.sendall(answer + b"\n")

    def _answer_to(self, line: bytes) -> bytes:
        question = _question_in(line)
        if question is None:
            return b'{"error": "not a question: use the `treadle` of the sidecar\'s release"}'
        try:
            if isinstance(question, Question):
                return self._process.answer(question)
            return json.dumps({"held": self._held()}).encode()
        except Exception as error:  # one question that fails is no concern of the next
            return json.dumps({"error": failed(error)}).encode()


class _Held:
    """The question which nodes are held for whom."""


def _question_in(line: bytes) -> Question | _Held | None:
    """Return what is asked; None if it is no question."""
    try:
        asked = json.loads(line)
        if asked.get("held") is True:
            return _Held()
        application, ask, node = str(asked["application"]), asked.get("ask"), str(asked.get("node") or "")
        return Question(application, None if ask is None else int(ask), node)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _asked(connected: socket.socket, until_s: float) -> bytes:
    """Return the line that is asked, or as much of it as a question may have.

    Raises:
        TimeoutError: it has not come in time, be it that a byte has come now and then.
    """
    line = b""
    while b"\n" not in line and len(line) < ASKED_BYTES_MAX:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the question has not come in time")
        connected.settimeout(left_s)
        part = connected.recv(ASKED_BYTES_MAX - len(line))
        if not part:
            break
        line += part
    return line.partition(b"\n")[0]


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

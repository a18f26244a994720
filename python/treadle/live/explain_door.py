"""Where `treadle explain` asks an engine.

The model is copied between two frames, some milliseconds for a large cluster, and looked through by another process
(`treadle.live.explain_process`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.engine import Engine
from treadle.events import NodeState
from treadle.explain.situation import Situation
from treadle.live.door import NO_QUESTION, Door, opened
from treadle.live.explain_child import failed
from treadle.live.explain_process import Action, ExplainProcess, Look, Question

Held = Callable[[], list[dict[str, Any]]]

HELD_MAX: Final = 1000

ONE_ENGINE: Final = "there is one engine, which has no name; leave --engine out"


class ExplainDoor(Door):
    """Says why applications wait, and which nodes are held for whom."""

    def __init__(self, path: Path, look: Look, held: Held) -> None:
        """Open the socket, as `Door` does.

        Args:
            path: where
            look: shows the engine's situation
            held: returns which nodes are held for whom
        """
        super().__init__(path)
        self._held, self._process = held, ExplainProcess(look)

    def prepare(self) -> None:
        """Start the process that explains."""
        self._process.start()

    def ended(self) -> None:
        """End it."""
        self._process.close()

    def answer_to(self, line: bytes) -> bytes:
        """Answer a question."""
        try:
            asked = json.loads(line)
            if asked.get("engine"):
                return json.dumps({"error": ONE_ENGINE}).encode()
            question = None if asked.get("held") is True else _question_in(asked)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return NO_QUESTION
        try:
            return json.dumps({"held": self._held()}).encode() if question is None else self._process.answer(question)
        except Exception as error:  # one question that fails is no concern of the next
            return json.dumps({"error": failed(error)}).encode()


def _question_in(asked: dict[str, Any]) -> Question:
    application, ask, node = str(asked["application"]), asked.get("ask"), str(asked.get("node") or "")
    return Question(application, None if ask is None else int(ask), node)


def shown(engine: Engine, action: Action) -> Any:
    """Return what an action makes of an engine's situation; None before its first snapshot."""
    situation = Situation.of(engine)
    return None if situation is None else action(situation)


def held_nodes(engine: Engine) -> list[dict[str, Any]]:
    """Return which nodes an engine keeps free for asks, for which applications, and for how much longer at most."""
    situation = Situation.of(engine)
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


def open_door(folder: Path | None, look: Look, held: Held = list) -> ExplainDoor | None:
    """Open an engine's door in its state folder."""
    return opened(folder, lambda path: ExplainDoor(path, look, held))

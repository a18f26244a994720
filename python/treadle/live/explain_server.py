"""The server of `treadle explain`: it asks the engine on the asking thread, between two frames.

A question takes some milliseconds, for which the next frame waits (docs/results/benchmark.md).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.engine import Engine
from treadle.errors import printable, stalled_queue
from treadle.events import NodeState
from treadle.explain import Explainer
from treadle.live.question_socket import NO_QUESTION, QuestionServer, opened
from treadle.sidecar.observation import Observation
from treadle.yarn.codes import application_id, several

_log = logging.getLogger(__name__)

HELD_MAX: Final = 1000

ONE_ENGINE: Final = "there is one engine, which has no name; leave --engine out"

WithEngine = Callable[[Callable[[Engine], Any]], Any]
"""Calls a function with the engine, between two frames, and returns its result."""


class Question(NamedTuple):
    """A question about an application."""

    application: str
    """YARN's id, or the end of it."""
    ask: int | None
    """Explain this request key alone."""
    node: str
    """Say of each ask why it is not on the node of this name."""

    @classmethod
    def of(cls, question: dict[str, Any]) -> Question:
        """Return the question in a parsed line; raises the error of an invalid one."""
        ask = question.get("ask")
        return cls(str(question["application"]), None if ask is None else int(ask), str(question.get("node") or ""))

    def answer(self, engine: Engine) -> dict[str, Any]:
        """Return why an application waits, for JSON; else ``error``, and ``unknown`` if there is no such one."""
        try:
            explainer = Explainer(engine)
        except LookupError as error:
            return {"error": str(error)}
        matches = explainer.find(self.application)
        if not matches:
            text = f"the engine has no application {self.application} that runs; give the whole id, or its last number"
            return {"error": text, "unknown": True}
        if len(matches) > 1:
            return {"error": several(self.application, [explainer.id_of(each) for each in matches])}
        explained = explainer.explain(matches[0], self.ask, self.node)
        stalled = [line for line in engine.stalled() if stalled_queue(line) == explained.queue]
        return explained.plain() | ({"stalled": stalled} if stalled else {})


class ExplainServer(QuestionServer):
    """Answers questions about waiting applications, reserved nodes and the figures of `observe_only`."""

    def __init__(self, path: Path, with_engine: WithEngine, observation: Observation | None = None) -> None:
        """Open the socket, as `QuestionServer` does.

        Args:
            path: of the socket
            with_engine: calls a function with the engine
            observation: has the figures of `observe_only`; None: another process has them
        """
        super().__init__(path)
        self._with_engine, self._observation = with_engine, observation

    def answer_to(self, line: bytes) -> bytes:
        """Answer a question."""
        try:
            question = json.loads(line)
            if question.get("engine"):
                return json.dumps({"error": ONE_ENGINE}).encode()
            if question.get("observation") is True and self._observation is not None:
                return json.dumps(self._observation.shown()).encode()
            answer = held_nodes if question.get("held") is True else Question.of(question).answer
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return NO_QUESTION
        try:
            return json.dumps(self._with_engine(answer)).encode()
        except Exception as error:  # a failed question does not affect the next
            _log.error("a question was not answered", exc_info=error)
            text = f"the question failed: {printable(f'{type(error).__name__}: {error}')}; the sidecar's log has more"
            return json.dumps({"error": text}).encode()


def held_nodes(engine: Engine) -> dict[str, Any]:
    """Return which nodes an engine keeps free for asks, for which applications, and for how much longer at most."""
    inside, rows = engine.inside(), list[dict[str, Any]]()
    if inside is None:
        return {"held": rows}
    cluster, view, texts = inside[0], inside[0].view(), inside[0].names.texts
    nodes = view.nodes
    for node in np.flatnonzero((nodes["hold_row"] >= 0) & (nodes["state"] != NodeState.GONE))[:HELD_MAX].tolist():
        application = int(view.rows["application"][nodes["hold_row"][node]])
        if application >= 0:
            app = view.apps[application]
            whose = application_id(int(app["cluster_timestamp"]), int(app["id"]))
            left_ms = max(int(nodes["hold_until_ms"][node]) - cluster.now_ms, 0)
            rows.append({"node": texts[int(nodes["name"][node])], "application": whose, "left_ms": left_ms})
    return {"held": rows}


def open_explain_server(
    folder: Path | None, with_engine: WithEngine, observation: Observation | None = None
) -> ExplainServer | None:
    """Open an engine's door in its state folder."""
    return opened(folder, lambda path: ExplainServer(path, with_engine, observation))

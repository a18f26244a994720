"""The hub of a sidecar whose treadle.yaml names several engines, each in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Condition, Semaphore
from typing import Any, Final

from treadle.config.reader import check_settings, read_roster
from treadle.config.settings import RosterEngine
from treadle.config.text import section_values
from treadle.config.trust import reason_against
from treadle.config.yaml_nodes import text_of
from treadle.errors import ConfigError, Problem, UserError, unknown
from treadle.live.observation_file import open_observation
from treadle.live.policy_memory import state_folder
from treadle.live.question_socket import NO_QUESTION, Close, QuestionServer, ask_server, opened
from treadle.sidecar.child import CLOSE_S, LISTENS, ChildProcess
from treadle.sidecar.conversation import Listener
from treadle.sidecar.hub import Hub
from treadle.sidecar.observation import Observation
from treadle.yarn.treadle_beans import application_in

ANSWER_S: Final = 8.0
"""An engine that takes longer to answer is given up; the asker waits ten seconds."""

ASKING_MAX: Final = 256
"""So many applications at most wait for their stages to be asked for; the stages of others are not known."""

COMMAND: Final = (sys.executable, "-P", "-m", "treadle.live.engine_child")


def open_hub(config: Path, roster: Sequence[RosterEngine], closing: list[Close]) -> Hub:
    """Return a hub whose engines are being started.

    Args:
        config: treadle.yaml
        roster: its engines
        closing: gets functions to call before the process ends
    """
    reading, asking = ThreadPoolExecutor(1, "roster"), ThreadPoolExecutor(1, "stages")
    children: list[ChildProcess] = []
    stages_of: list[Callable[[str], object]] = []
    room = Semaphore(ASKING_MAX)

    def tell(thing: object) -> None:
        hub.remember(thing)

    plans = _plans(config, tell, stages_of.append)
    listens = LISTENS if plans else "alone"

    def make(row: RosterEngine, changed: Condition) -> ChildProcess:
        children[:] = [each for each in children if not each.ended]
        children.append(ChildProcess(row.name, (*COMMAND, str(config), row.name, listens), changed))
        return children[-1]

    def read() -> Future[Sequence[RosterEngine]]:
        return reading.submit(_trusted_roster, config)

    def ask(engine: str, application: str) -> None:
        try:
            hub.remember((application, stages_of[0](application)), engine)
        finally:
            room.release()

    def ended(engine: str, application: str) -> None:
        if stages_of and room.acquire(blocking=False):
            asking.submit(ask, engine, application)

    folder = state_folder(config)
    observation = None if folder is None else open_observation(folder, closing)
    listeners = tuple(filter(None, (plans, observation)))
    hub = Hub(roster, make, clock_ns=time.monotonic_ns, read_roster=read, listeners=listeners, on_end=ended)

    def close(_: str) -> None:
        ending = list(children)
        for child in ending:
            child.close()
        until_s = time.monotonic() + CLOSE_S
        for child in ending:
            child.join(until_s - time.monotonic())

    closing.append(close)
    opened(folder, lambda path: HubQuestionServer(path, config, hub, observation))
    return hub


def _plans(
    config: Path, remember: Callable[[object], None], ask_stages: Callable[[Callable[[str], object]], None]
) -> Listener | None:
    """Open the plan listener of the first engine, if it has one; only that imports compiled code."""
    values = section_values(text_of(config))
    first = next(iter((values.get("engines") or {}).values()), None) or {}
    if not (first.get("listener", values.get("listener")) or {}).get("address"):
        return None
    from treadle.live.plan_source import open_plans
    from treadle.policy.catalogue import register_parts

    register_parts()
    return open_plans(check_settings(config).of_first_engine, remember, ask_stages)


class HubQuestionServer(QuestionServer):
    """Returns the owners of applications, and forwards questions about an application to its engine."""

    def __init__(self, path: Path, config: Path, hub: Hub, observation: Observation | None = None) -> None:
        super().__init__(path)
        self._config, self._hub, self._observation = config, hub, observation

    def answer_to(self, line: bytes) -> bytes:
        """Answer a question."""
        try:
            question = json.loads(line)
            roster = self._hub.roster_json()
            if question.get("engines") is True:
                return json.dumps(roster).encode()
            if question.get("observation") is True and self._observation is not None:
                return json.dumps(self._observation.shown()).encode()
            if question.get("held") is True:
                answers = [_answer(name, self._of(name, question)) for name in roster["engines"]]
                errors = [each for each in answers if "error" in each]
                held = [node for each in answers for node in each.get("held", [])]
                return json.dumps(errors[0] if len(errors) == len(answers) else {"held": held}).encode()
            name = question.pop("engine", "") or _owner(roster["applications"], str(question["application"]))
            if name not in roster["engines"]:
                return json.dumps({"error": unknown(str(name), list(roster["engines"]))}).encode()
            return self._of(name, question)
        except UserError as error:
            return json.dumps({"error": str(error), "unknown": True}).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return NO_QUESTION

    def _of(self, engine: str, question: Mapping[str, Any]) -> bytes:
        """Return an engine's answer."""
        folder = state_folder(self._config, engine=engine)
        try:
            return ask_server(folder or Path("/"), question, ANSWER_S)
        except OSError as error:
            return json.dumps({"error": f"engine {engine} does not answer: {error}"}).encode()


def _answer(engine: str, content: bytes) -> Mapping[str, Any]:
    """Return an engine's answer about the nodes that it reserves; an invalid answer is returned as an error."""
    with suppress(ValueError, RecursionError):
        answer = json.loads(content)
        if isinstance(answer, dict) and isinstance(answer.get("held", []), list):
            return answer
    return {"error": f"engine {engine} gives no answer"}


def _owner(applications: Mapping[str, Sequence[str]], given: str) -> str:
    """Return the engine that serves an application.

    Raises:
        UserError: no engine does, or several applications match.
    """
    application = application_in(applications, given)
    if not application or not applications[application][1]:
        raise UserError(f"no engine serves an application {given} that runs; give the whole id, or its last number")
    return applications[application][1]


def _trusted_roster(config: Path) -> Sequence[RosterEngine]:
    reason = reason_against(config)
    if reason:
        raise ConfigError(str(config), [Problem(0, "", reason)])
    return read_roster(config)

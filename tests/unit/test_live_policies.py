"""A session with a real engine whose part fails in the middle: frames in, answers and status out."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from treadle.config.reader import parse_settings
from treadle.config.settings import default_settings
from treadle.engine.testing import small_cluster
from treadle.events import Names
from treadle.live import policies as live_policies
from treadle.live.plan_source import PlanEventSource, PlanLink
from treadle.live.policies import LivePolicies
from treadle.live.policy_memory import PolicyMemory
from treadle.live.session import Session
from treadle.record.files import segments
from treadle.replay.verify import verify
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import FrameEncoder, FrameFlag, FrameHeader

DEFAULT = default_settings().policy.name()
LATER_MS = 1_000_000


TEXTS = ("memory-mb", "vcores", "node-locality-delay", "2", "nm-heartbeat-ms", "1000")


def described() -> list[Any]:
    """A small cluster, with the texts that only frames send by index."""
    return [Names((*event.texts, *TEXTS)) if isinstance(event, Names) else event for event in small_cluster()]


class Conversation:
    """What a ResourceManager says to a sidecar."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sequence = 0

    def send(self, events: list[Any], now_ms: int, configuration: int = 0) -> Answer:
        self._sequence += 1
        flags = int(FrameFlag.SNAPSHOT) if self._sequence == 1 else 0
        header = FrameHeader(flags, 1, self._sequence, now_ms, configuration, 16, 2)
        return decode_answer(self._session.decide(FrameEncoder().encode(header, events)), 16)


def policies(folder: Path, body: str) -> LivePolicies:
    (folder / "mine.py").write_text(
        f"class Mine:\n    def keys(self, view):\n        if view.now_ms >= {LATER_MS}:\n"
        f"            {body}\n        return view.applications['id'] * 1.0\n"
    )
    file = folder / "treadle.yaml"
    file.write_text("policy:\n  order: {kind: file, path: mine.py, class: Mine}\nlimits: {part_timeout_ms: 50}\n")
    return LivePolicies(file, PolicyMemory(folder / "state"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('on demand')", "mine.py:4: RuntimeError: on demand"),
        ("while True: pass", "mine.py:4: took too long and was stopped"),
        ("return [float('nan')] * len(view.applications)", "keys returned NaN at index 0"),
    ],
)
def test_the_same_frame_is_answered_by_another_policy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: str, said: str
) -> None:
    live = policies(tmp_path, body)
    caller = Conversation(live.session(live.start(), 1 << 20, lambda: 0))
    first = caller.send(described(), 1_000)
    assert len(first.proposals) == 16
    assert "order=mine.py:Mine" in json.loads(first.status)["policy"]

    with caplog.at_level(logging.ERROR):
        second = caller.send([], LATER_MS)

    assert len(second.proposals) == 16
    assert not second.resend
    status = json.loads(second.status)
    assert status["policy"] == DEFAULT
    assert said in status["error"]
    assert status["error"].endswith(f"{DEFAULT} runs instead")
    assert "\n" not in status["error"]
    assert "the policy changes at frame 2, call 1" in caplog.text
    again = policies(tmp_path, body)
    assert again.start().policy.name() == DEFAULT
    assert said in again.refusal


def test_a_recording_is_replayed_where_the_sidecar_began_with_the_policy_of_its_file(tmp_path: Path) -> None:
    policies(tmp_path, "raise RuntimeError('on demand')")
    file, record = tmp_path / "treadle.yaml", f"record: {{folder: {tmp_path}/rec}}\n"
    file.write_text(file.read_text() + record)
    memory, began = PolicyMemory(tmp_path / "state"), []
    for _ in range(2):  # with the part; then, since it has failed, with a policy that did well
        live = LivePolicies(file, memory)
        caller = Conversation(live.session(live.start(), 1 << 20, lambda: 0))
        began.append(json.loads(caller.send(described(), 1_000).status)["policy"])
        caller.send([], LATER_MS)
        assert live._ticks is not None
        assert live._ticks.close("over", within_s=60)
        memory.remember_good(parse_settings(str(file), record))
    assert began[1] == DEFAULT != began[0]
    verdict = verify(segments(tmp_path / "rec"), trust_code=True)
    assert (verdict.segments, verdict.form_only, verdict.ticks, verdict.first) == (2, 1, 2, None)


def test_that_there_are_no_plans_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = PlanLink(default_settings(), lambda _: None)  # it is not started
    link._problem = "the port is taken"
    monkeypatch.setattr(live_policies, "open_plans", lambda *_: PlanEventSource(link))
    live = LivePolicies(None, PolicyMemory(tmp_path / "state"))
    caller = Conversation(live.session(live.start(), 1 << 20, lambda: 0))
    answer = caller.send(described(), 1_000)
    assert json.loads(answer.status)["warnings"] == ["no plans, tried again soon: the port is taken"]

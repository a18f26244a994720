"""A session: epochs, sequences, failures of the engine, settings read again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from treadle.config.parts import DEFAULTS, Part, PartRegistry, Traits
from treadle.config.reader import parse_settings
from treadle.config.settings import Limits, Settings, Source, default_settings
from treadle.engine import Engine
from treadle.errors import ConfigError, Problem
from treadle.events import (
    INDEX_MAX,
    NOTHING_HELD,
    WIRE_VERSION,
    Event,
    Held,
    Names,
    PolicySwitch,
    Proposals,
    Samples,
    Snapshot,
    Tags,
)
from treadle.live.session import (
    DECISIONS_UNTIL_HEALTHY,
    EngineFailedError,
    Session,
    Submit,
    at_once,
)
from treadle.policy.catalogue import register_parts
from treadle.policy.user_parts import PartFailure
from treadle.sidecar.conversation import FAILURES_MAX, Listener
from treadle.wire.answer import HELD_BYTES_MAX, PROPOSAL_HEADER, Answer, Status, decode_answer
from treadle.wire.frames import FrameEncoder, FrameFlag, FrameHeader

PARTS = PartRegistry()
for _part, _kind in DEFAULTS.items():
    PARTS.register(_part, _kind, traits=Traits(overrides=False))(lambda parameters: parameters)
PARTS.register("share", "hdrf")(lambda parameters: parameters)
PARTS.register("order", "srpt")(lambda parameters: parameters)
PARTS.register("gate", "pilots")(lambda parameters: parameters)
SETTINGS = default_settings(PARTS)
SNAPSHOT = int(FrameFlag.SNAPSHOT)
MORE = int(FrameFlag.MORE)
OBSERVE = int(FrameFlag.OBSERVE)


class Recorder:
    """An engine that writes down how it is called and proposes as many containers as it may."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.applied: list[Sequence[Event]] = []
        self.decided: list[tuple[int, int, int, bool]] = []
        self.fail: Exception | None = None
        self.said: tuple[str, ...] = ()
        self.short: tuple[str, ...] = ()
        self.waiting = ""
        self.held_back = NOTHING_HELD
        self.part_failure: PartFailure | None = None
        self.sampled: Samples | None = None
        self.switched: list[PolicySwitch] = []

    attempts = None

    def inside(self) -> None:
        return None

    def apply(self, events: Sequence[Event]) -> None:
        self.applied.append(events)
        if self.fail:
            raise self.fail

    def decide(self, now_ms: int, limit: int, *, sequence: int, assume: bool) -> Proposals:
        self.decided.append((now_ms, limit, sequence, assume))
        column = np.arange(min(limit, self.settings.limits.proposals_max), dtype=np.int32)
        return Proposals(column, column, column)

    def configure(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def running(self) -> Settings:
        return self.settings

    @property
    def failure(self) -> PartFailure | None:
        return self.part_failure

    def switches(self) -> Sequence[PolicySwitch]:
        return self.switched

    def warnings(self) -> Sequence[str]:
        return self.said

    def stalled(self) -> Sequence[str]:
        return self.short

    def diagnostics(self) -> list[tuple[int, str]]:
        return []

    def contention(self) -> str:
        return ""

    def waits_for(self) -> str:
        return self.waiting

    def held(self) -> Held:
        return self.held_back

    def samples(self) -> Samples | None:
        return self.sampled


class Caller:
    """What a link does, for tests."""

    def __init__(self, reply_max_bytes: int = 1 << 20, keeper: Keeper | None = None, submit: Submit = at_once) -> None:
        self.engines: list[Recorder] = []
        self.settings: Callable[[], Settings] = lambda: SETTINGS
        self.micros = 0
        self.session = Session(
            self._make,
            self._read,
            reply_max_bytes=reply_max_bytes,
            clock_ns=self._clock,
            listeners=(keeper,) if keeper else (),
            submit=submit,
        )

    def _make(self, settings: Settings) -> Any:
        self.engines.append(Recorder(settings))
        return self.engines[-1]

    def _read(self) -> Settings:
        return self.settings()

    def _clock(self) -> int:
        self.micros += 7
        return self.micros * 1000

    def send(self, sequence: int, flags: int = 0, epoch: int = 5, configuration: int = 0, limit: int = 3) -> Answer:
        events: list[Event] = [Snapshot(epoch), Names(("",))] if flags & SNAPSHOT else []
        header = FrameHeader(flags, epoch, sequence, 1000 + sequence, configuration, limit, 2)
        return self.raw(FrameEncoder().encode(header, events))

    def raw(self, frame: bytes) -> Answer:
        return decode_answer(self.session.decide(frame), 100_000)

    def status(self, answer: Answer) -> Any:
        return json.loads(answer.status)


def begun() -> Caller:
    """Return a link whose first frame was answered."""
    caller = Caller()
    caller.send(1, SNAPSHOT)
    return caller


UNEVENTFUL: dict[str, Any] = {
    "overrides_guarantees": False,
    "overrides_order": False,
    "configuration": 0,
    "error": None,
    "learned": "",
    "waits_for": "",
    "keys_for": [],
    "diagnostics": [],
    "warnings": [],
}
"""What a status has besides the policy where nothing is to be reported."""


def refuse() -> Settings:
    raise ConfigError("t.yaml", [Problem(3, "seed", "wrong"), Problem(4, "limits", "wrong too")])


def test_a_frame_is_answered() -> None:
    caller = Caller()
    answer = caller.send(9, SNAPSHOT)
    assert answer[:4] == (5, 9, 7, False)
    assert list(answer.proposals.node) == [0, 1, 2]
    assert caller.engines[0].decided == [(1009, 3, 9, True)]
    assert [type(event) for event in caller.engines[0].applied[0]] == [Snapshot, Names]


def test_nothing_is_assumed_where_nothing_is_committed() -> None:
    caller = Caller()
    caller.send(1, SNAPSHOT | OBSERVE)
    assert caller.engines[0].decided == [(1001, 3, 1, False)]


def test_parts_are_answered_with_no_proposals() -> None:
    caller = Caller()
    assert caller.send(1).resend, "a session begins with a snapshot"
    for sequence, flags in ((1, SNAPSHOT | MORE), (2, MORE)):
        answer = caller.send(sequence, flags)
        assert (answer.resend, len(answer.proposals), answer.status) == (False, 0, "")
    last = caller.send(3)
    assert (len(last.proposals), caller.status(last)["error"]) == (3, None)
    assert caller.send(4).status == ""
    assert len(caller.engines[0].applied) == 4


@pytest.mark.parametrize(("sequence", "epoch"), [(3, 5), (1, 5), (2, 6)])
def test_after_a_gap_only_a_snapshot_will_do(sequence: int, epoch: int) -> None:
    caller = begun()
    for following in (sequence, sequence + 1):
        answer = caller.send(following, epoch=epoch)
        assert (answer.epoch, answer.sequence, answer.resend, len(answer.proposals)) == (epoch, following, True, 0)
    assert len(caller.engines[0].applied) == 1
    assert not caller.send(8, SNAPSHOT, epoch=epoch).resend
    assert not caller.send(9, epoch=epoch).resend


def test_garbage_is_answered_with_resend() -> None:
    caller = begun()
    answer = caller.raw(b"garbage")
    assert answer[:2] == (0, 0)
    assert answer.resend
    assert caller.send(2).resend


def delta_with_a_1_at(byte: int) -> bytes:
    """Return the second frame of a session without sections, one of whose bytes was changed to 1."""
    frame = bytearray(FrameEncoder().encode(FrameHeader(0, 5, 2, 1002, 0, 3, 2), []))
    frame[byte] = 1
    return bytes(frame)


def test_a_malformed_delta_keeps_its_sequence_in_the_answer() -> None:
    caller = begun()
    answer = caller.raw(delta_with_a_1_at(42))
    assert (answer.epoch, answer.sequence, answer.resend) == (5, 2, True)
    assert len(caller.engines[0].applied) == 1


def test_an_engine_that_fails_is_replaced_and_said() -> None:
    caller = begun()
    caller.engines[0].fail = ZeroDivisionError("a fault")
    answer = caller.send(2)
    assert (answer.resend, len(answer.proposals)) == (True, 0)
    assert caller.status(answer)["error"] == "engine restarted after ZeroDivisionError: a fault"
    assert len(caller.engines) == 2
    assert caller.send(3).resend
    assert len(caller.send(4, SNAPSHOT).proposals) == 3
    assert len(caller.engines[1].applied) == 1


def test_a_failure_is_reported_until_the_new_engine_has_proved_itself() -> None:
    caller = begun()
    caller.engines[0].fail = ZeroDivisionError("a fault")
    caller.send(2)
    assert "a fault" in caller.status(caller.send(3, SNAPSHOT))["error"]
    answers = [caller.send(4 + at) for at in range(DECISIONS_UNTIL_HEALTHY - 2)]
    assert [answer.status for answer in answers] == [""] * len(answers)
    assert caller.status(caller.send(4 + len(answers)))["error"] is None


def test_more_indices_than_there_may_be_are_said_until_a_frame_is_taken() -> None:
    caller = begun()
    tags = Tags(np.full(1, INDEX_MAX, np.int32), np.zeros(1, np.int32))
    answer = caller.raw(FrameEncoder().encode(FrameHeader(0, 5, 2, 1002, 0, 3, 2), [tags]))
    assert answer.resend
    said = "frame 2 refused: TAGS.application: 4194304 is not in 0 to 4194303, the indices that there are between two"
    assert caller.status(answer)["error"] == f"{said} snapshots"
    assert len(caller.engines[0].applied) == 1
    assert caller.status(caller.send(3, SNAPSHOT))["error"] is None


def test_a_frame_of_another_version_is_refused_with_both_versions_named() -> None:
    caller = begun()
    answer = caller.raw(delta_with_a_1_at(4))
    assert answer.resend
    assert len(answer.proposals) == 0
    said = f"version: 1, this engine speaks {WIRE_VERSION}: use the jar and the wheel of one release"
    assert caller.status(answer)["error"] == f"frame ? refused: {said}"
    assert len(caller.engines[0].applied) == 1, "nothing of it is read"
    assert caller.status(caller.send(3, SNAPSHOT))["error"] is None


def test_what_a_status_says_of_applications_is_bounded() -> None:
    said = tuple((at, "for pilots") for at in range(40))
    text = json.loads(Status("fifo", diagnostics=said).changed())
    assert text["diagnostics"] == [[at, "for pilots"] for at in range(16)]
    assert text["warnings"] == []


def test_a_status_that_is_too_long_says_that_something_is_left_out() -> None:
    elephants, engines = "\U0001f418" * 1000, {"engines": "u" * 8000}
    long = tuple((at, elephants) for at in range(40))
    longest = Status("x", warnings=(elephants,) * 8, diagnostics=long, engines=engines).changed()
    assert len(longest) <= Status.BYTES_MAX
    first, second, *_ = json.loads(longest)["warnings"]
    assert "left out" in first
    assert second == elephants[:400]
    full = Status(elephants, learned=elephants, waits_for=elephants, config_error=elephants, warnings=(elephants,) * 9)
    full.engines, full.diagnostics = engines, long
    text = full.changed()
    assert len(text) <= Status.BYTES_MAX
    assert json.loads(text)["engines"] == engines
    assert "left out" in json.loads(text)["warnings"][0]
    full = Status("x", engines={"engines": "u" * 8192})
    text = full.changed()
    assert "engines" not in json.loads(text)
    assert "left out" in json.loads(text)["warnings"][0]


def test_an_engine_that_always_fails_ends_the_session() -> None:
    caller = Caller()
    for sequence in range(1, FAILURES_MAX):
        caller.engines[-1].fail = MemoryError("again")
        assert caller.send(sequence, SNAPSHOT).resend
    caller.engines[-1].fail = MemoryError("again")
    with pytest.raises(EngineFailedError, match="8 times in a row: again"):
        caller.send(FAILURES_MAX, SNAPSHOT)


def test_the_status_is_sent_when_it_changed_and_with_each_snapshot() -> None:
    caller = Caller()
    status = caller.status(caller.send(1, SNAPSHOT))
    assert status == UNEVENTFUL | {"policy": SETTINGS.policy.name()}
    assert caller.send(2).status == ""
    caller.engines[0].said = ("odd",)
    assert caller.status(caller.send(3))["warnings"] == ["odd"]
    caller.engines[0].short = ("stalled: queue root.a",)
    assert caller.status(caller.send(4))["warnings"] == ["stalled: queue root.a", "odd"]
    caller.engines[0].short = ()
    assert caller.status(caller.send(5))["warnings"] == ["odd"]
    for sequence, waits_for in ((6, "pilots"), (7, "")):
        caller.engines[0].waiting = waits_for
        assert caller.status(caller.send(sequence))["waits_for"] == waits_for
    assert caller.send(8).status == ""
    assert caller.status(caller.send(9, SNAPSHOT))["warnings"] == ["odd"]


def test_a_policy_that_goes_by_a_store_that_is_not_there_is_a_warning() -> None:
    register_parts()
    caller = begun()
    caller.settings = lambda: parse_settings("t.yaml", "policy: {estimate: {kind: hints}}\n")
    caller.engines[0].said = ("odd",)
    needs = "policy.estimate (hints) uses the history of earlier runs: set history.store or listener.address"
    assert caller.status(caller.send(2, configuration=1))["warnings"] == [needs, "odd"]
    text = "policy: {estimate: {kind: hints}}\nlistener: {address: 127.0.0.1}\n"
    caller.settings = lambda: parse_settings("t.yaml", text)
    assert caller.status(caller.send(3, configuration=2))["warnings"] == ["odd"]


@pytest.mark.parametrize(
    ("question", "kind", "overrides"),
    [("order", "srpt", "order"), ("gate", "pilots", "order"), ("share", "hdrf", "guarantees")],
)
def test_the_status_says_what_a_part_overrides(question: str, kind: str, overrides: str) -> None:
    caller = Caller()
    assert caller.status(caller.send(1, SNAPSHOT))[f"overrides_{overrides}"] is False
    found = PARTS.kinds(question)[kind]
    part: dict[str, Any] = {question: Part(found, found.parameters())}
    caller.settings = lambda: replace(SETTINGS, policy=replace(SETTINGS.policy, **part))
    caller.send(2)
    assert caller.status(caller.send(3, configuration=1))[f"overrides_{overrides}"] is True


def test_settings_are_read_again_when_the_number_changes() -> None:
    caller = Caller()
    caller.send(1, SNAPSHOT, configuration=4)
    fewer = replace(SETTINGS, limits=Limits(proposals_max=1))
    caller.settings = lambda: fewer
    assert len(caller.send(2, configuration=4).proposals) == 3
    answer = caller.send(3, configuration=5)
    assert len(answer.proposals) == 1
    assert caller.engines[0].settings is fewer
    assert caller.status(answer)["configuration"] == 5
    assert len(caller.engines) == 1


def test_refused_settings_leave_the_old_ones_and_are_said() -> None:
    caller = begun()
    caller.settings = refuse
    answer = caller.send(2, configuration=1)
    assert len(answer.proposals) == 3
    error = caller.status(answer)["error"]
    assert error == "settings 1 refused, the old ones are kept: t.yaml:3: seed: wrong; t.yaml:4: limits: wrong too"
    assert caller.send(3, configuration=1).status == ""
    caller.settings = lambda: SETTINGS
    assert caller.status(caller.send(4, configuration=2))["error"] is None


class Keeper(Listener):
    """Writes down what it gets."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def deciding(self) -> None:
        self.told.append(("begin", None))

    def follow(self, settings: Settings, before: Settings | None = None) -> None:
        self.told.append(("changed", (before, settings)))

    def failed(
        self, settings: Settings, failure: PartFailure, running: Settings, switches: Sequence[PolicySwitch]
    ) -> None:
        self.told.append(("failed", failure))
        self.told += [("switch", switch) for switch in switches]


def test_a_part_that_failed_is_said_and_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper()
    caller = Caller(keeper=keeper)
    caller.send(1, SNAPSHOT)
    try:
        raise PartFailure("share", "my.py:Mine", "my.py:3: KeyError: 'x'", 4) from KeyError("x")
    except PartFailure as failure:
        caller.engines[0].part_failure = failure
    switch = PolicySwitch(2, 4, SETTINGS.policy.name(), "KeyError")
    caller.engines[0].switched = [switch]
    answer = caller.send(2)
    name = SETTINGS.policy.name()
    assert len(answer.proposals) == 3
    error = f"policy.share (my.py:Mine): my.py:3: KeyError: 'x'; {name} runs instead"
    assert caller.status(answer) == UNEVENTFUL | {"policy": name, "error": error}
    assert caller.send(3).status == ""
    assert f"the policy changes at frame 2, call 4: {error}" in caplog.text
    assert "Traceback" in caplog.text
    assert keeper.told.count(("failed", caller.engines[0].part_failure)) == 1
    assert keeper.told.count(("switch", switch)) == 1


def test_settings_that_are_still_being_read_change_nothing_yet() -> None:
    pending: Future[Settings] = Future()
    keeper = Keeper()
    caller = Caller(keeper=keeper, submit=lambda read: pending)
    caller.send(1, SNAPSHOT, configuration=1)
    assert len(caller.send(2, configuration=2).proposals) == 3
    fewer = replace(SETTINGS, limits=Limits(proposals_max=1))
    pending.set_result(fewer)
    assert len(caller.send(3, configuration=2).proposals) == 1
    assert [told for told in keeper.told if told[0] == "changed"] == [("changed", (SETTINGS, fewer))]


def test_files_that_have_not_changed_leave_the_parts_alone() -> None:
    caller = Caller()
    caller.settings = lambda: replace(SETTINGS, source=Source("t.yaml", "a", {}))
    caller.send(1, SNAPSHOT, configuration=1)
    caller.send(2, configuration=2)
    kept = caller.engines[0].settings
    caller.settings = refuse
    assert caller.status(caller.send(3, configuration=3))["error"]
    caller.settings = lambda: replace(SETTINGS, source=Source("t.yaml", "a", {}))
    assert caller.status(caller.send(4, configuration=4))["error"] is None
    assert caller.engines[0].settings is kept


def test_an_engine_started_anew_does_not_bring_a_failed_policy_back() -> None:
    caller = begun()
    caller.engines[0].settings = good = replace(SETTINGS, seed=5)
    caller.engines[0].fail = ZeroDivisionError("a fault")
    caller.send(2)
    assert caller.engines[1].settings is good


def test_there_is_no_session_without_settings() -> None:
    with pytest.raises(ConfigError):
        Session(Engine, refuse, reply_max_bytes=1 << 20, clock_ns=lambda: 0)


def test_an_answer_names_what_the_engine_holds_back() -> None:
    caller = Caller()
    caller.engines[0].held_back = Held(np.array([3], np.int32), np.array([0, 9], np.int32))
    assert [column.tolist() for column in caller.send(1, SNAPSHOT).held] == [[3], [0, 9]]
    caller.engines[0].fail = ZeroDivisionError("a fault")
    assert [column.tolist() for column in caller.send(2).held] == [[], []]


def test_an_answer_fits_into_the_reply() -> None:
    most = PROPOSAL_HEADER.size + 8 + 2 * HELD_BYTES_MAX + Status.BYTES_MAX + 12 * 5 + 11
    assert len(Caller(reply_max_bytes=most).send(1, SNAPSHOT, limit=100).proposals) == 5
    assert len(Caller(reply_max_bytes=100).send(1, SNAPSHOT, limit=100).proposals) == 0


def test_the_caller_sets_how_long_an_answer_may_be() -> None:
    caller = Caller(reply_max_bytes=100)
    frame = FrameEncoder().encode(FrameHeader(SNAPSHOT, 5, 1, 1001, 0, 100, 2), [Snapshot(5), Names(("",))])
    assert len(decode_answer(caller.session.decide(frame, 1 << 20), 100).proposals) == 100


class Wanting(Listener):
    """Wants one snapshot."""

    def __init__(self) -> None:
        self.wants = True

    def wants_snapshot(self) -> bool:
        wants, self.wants = self.wants, False
        return wants


def test_one_snapshot_is_enough_for_all_that_want_one() -> None:
    caller = Caller()
    caller.session._listeners = (Wanting(), Wanting())
    assert not caller.send(1, SNAPSHOT).resend
    assert caller.send(2).resend
    assert not caller.send(3, SNAPSHOT).resend
    assert not caller.send(4).resend


def test_a_frame_is_not_kept_once_it_is_answered() -> None:
    caller = Caller()
    events: list[Event] = [Snapshot(5), Names(("",))]
    frame = FrameEncoder().encode(FrameHeader(SNAPSHOT, 5, 1, 1001, 0, 3, 2), events)
    before = sys.getrefcount(frame)
    assert not decode_answer(caller.session.decide(frame), 100_000).resend
    assert sys.getrefcount(frame) == before

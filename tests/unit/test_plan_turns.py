"""The hints from plans between two decides are bounded, and each user's applications have their turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from tests.unit.test_plan_event_source import TEXTS, i32, u8

from treadle import events
from treadle.am.protocol import Attempt
from treadle.am.quotas import FairQueue
from treadle.am.record import CLAIM, Claims
from treadle.am.registries import Amounts
from treadle.config.settings import default_settings
from treadle.live.plan_source import KEYS_MAX, LOOKED_MAX, ROWS_MAX, PlanEventSource, open_plans
from treadle.policy.catalogue import register_parts
from treadle.wire.frames import Frame, FrameHeader


class Side:
    """A `PlanSide` that has something new of each attempt it has met: claims of this many priorities."""

    def __init__(self, priorities: int) -> None:
        self.asked = 0
        self._news: FairQueue[Attempt] = FairQueue()
        self._claims = np.array([(at + 1, 5, 1_000, -1, 0.5) for at in range(priorities)], CLAIM)

    def meet(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        """Have something new."""
        self._news.put(user, attempt)

    def part(self, attempt: Attempt) -> None:
        """Nothing has to be forgotten."""

    def give_key(self, attempt: Attempt, number: int, key: bytes) -> None:
        """No key is needed."""

    def machines(self, nodes: Mapping[int, Amounts]) -> None:
        """Nodes do not matter."""

    def news(self) -> Attempt | None:
        """Return an attempt, each user's in turn."""
        self.asked += 1
        return self._news.pop()[1] if self._news else None

    def claims(self, attempt: Attempt) -> Claims:
        """Return the same of all."""
        return self._claims

    def summary(self) -> str:
        """Nothing is wrong."""
        return ""

    def problem(self) -> str:
        """Nothing is wrong."""
        return ""


def tell(source: PlanEventSource, *found: events.Event) -> Any:
    """Return the applications and keys that the engine gets hints for after a frame."""
    said: Any = source.collect(Frame(FrameHeader(0, 1, 1, 1, 0, 16, 2), list(found)))
    return (said[0].application, said[0].key) if said else (i32(), i32())


def applications(users: list[str]) -> events.Applications:
    many = len(users)
    columns: dict[str, Any] = {field.name: np.zeros(many, np.int32) for field in fields(events.Applications)}
    names = [*TEXTS, *sorted(set(users))]
    columns["application"] = columns["id"] = np.arange(many, dtype=np.int32)
    columns["type_name"] = np.full(many, TEXTS.index("TEZ"), np.int32)
    columns["user_name"] = i32(*(names.index(user) for user in users))
    columns["state"] = u8(*[1] * many)
    return events.Applications(**columns)


def asks(application: int, keys: int) -> events.Requests:
    at = np.arange(keys, dtype=np.int32)
    return events.filled(
        events.Requests,
        keys,
        application=application,
        key=at,
        priority=at + 1,
        allocation_request_id=-1,
        count=1,
        relax_locality=1,
        capability=np.ones((keys, 2), np.int64),
    )


def test_hints_between_two_decides_are_bounded_and_each_user_has_a_turn() -> None:
    users = ["mallory"] * 30 + ["xavier"]
    side, keys = Side(2 * ROWS_MAX), 2 * ROWS_MAX // 3
    source = PlanEventSource(side)
    names = events.Names((*TEXTS, "mallory", "xavier"))
    begun = [asks(at, 2 if user == "xavier" else keys) for at, user in enumerate(users)]
    told: dict[int, int] = {}
    first = tell(source, events.Snapshot(1), names, applications(users), *begun)
    assert side.asked == LOOKED_MAX
    assert len(first[1]) == ROWS_MAX
    assert 30 in first[0].tolist(), "whoever has one waits for no more than one of whoever has thirty"
    rounds = 0
    while len(first[1]):
        assert len(first[1]) <= ROWS_MAX
        for at in first[0].tolist():
            told[at] = told.get(at, 0) + 1
        first, rounds = tell(source), rounds + 1
    assert told == {at: 2 if user == "xavier" else keys for at, user in enumerate(users)}, "nothing is sent twice"
    assert rounds >= 30 * keys // ROWS_MAX


def test_hints_for_request_keys_of_an_application_are_bounded() -> None:
    source = PlanEventSource(Side(KEYS_MAX + 100))
    begun = tell(source, events.Snapshot(1), events.Names((*TEXTS, "a")), applications(["a"]), asks(0, KEYS_MAX + 100))
    count = 0
    while len(begun[1]):
        count += len(begun[1])
        begun = tell(source)
    assert count == KEYS_MAX


def test_without_an_address_there_is_no_port() -> None:
    register_parts()
    assert not default_settings().listener.address
    assert open_plans(default_settings(), lambda _: None, lambda _: None) is None

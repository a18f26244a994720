"""What a live event source keeps of applications, and for how long: by YARN's ids, over snapshots, within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from treadle import events
from treadle.engine.invented_cluster import Texts, rows
from treadle.events import ApplicationState, Event, Samples
from treadle.history.store import Sample, samples_event
from treadle.live.event_source import ABSENT_MS, HistorySource
from treadle.wire.frames import Frame, FrameHeader
from treadle.wire.schema import FrameFlag

SAMPLE = Sample(1, 0, 40, 4, 3, 30_000.0, 3e8, -1.0, 0.0, 10.0, 5, 0.0)


def name(number: int) -> str:
    return f"application_7_{number:04d}"


@dataclass
class Store:
    """Sources that know nothing of history."""

    found: dict[str, Sample] = field(default_factory=dict)
    kept: dict[str, Sample | None] = field(default_factory=dict)

    def hints(self) -> list[Any]:
        return []

    def splits(self) -> list[Any]:
        return []

    def restored(self) -> Mapping[str, Sample]:
        found, self.found = self.found, {}
        return found

    def keep(self, samples: Mapping[str, Sample | None]) -> None:
        self.kept |= samples

    def summary(self) -> str:
        return "history"


class Rm:
    """Applications, indexed in the order of their numbers."""

    def __init__(self, samples_max: int = 100, restored: dict[str, Sample] | None = None) -> None:
        self.store = Store(restored or {})
        self.source = HistorySource(self.store, samples_max)
        self.now_ms = 1_000_000
        self.sequence = count(1)
        self.epoch = 1

    def frame(self, flags: int, *told: Event) -> list[Event]:
        self.now_ms += 1000
        header = FrameHeader(flags, self.epoch, next(self.sequence), self.now_ms, 0, 100, 2)
        return list(self.source.collect(Frame(header, list(told))))

    def snapshot(self, *numbers: int, more: bool = False) -> list[Event]:
        flags = int(FrameFlag.SNAPSHOT) | (int(FrameFlag.MORE) if more else 0)
        return self.frame(flags, events.Snapshot(self.epoch), self.applications(*enumerate(numbers)))

    def delta(self, *lives: tuple[int, int], state: ApplicationState = ApplicationState.ACTIVE) -> list[Event]:
        return self.frame(0, self.applications(*lives, state=state))

    def applications(
        self, *lives: tuple[int, int], state: ApplicationState = ApplicationState.ACTIVE
    ) -> events.Applications:
        ids = [
            {"application": at, "cluster_timestamp": 7, "id": number, "attempt": 1, "state": int(state)}
            for at, number in lives
        ]
        return rows(events.Applications, Texts(), ids)

    def learn(self, *indices: int) -> None:
        self.source.learn(samples_event([(at, SAMPLE) for at in indices]))

    def known(self) -> list[str]:
        return sorted(self.source._samples)


def told_of(found: list[Event]) -> list[int]:
    return [at for event in found if isinstance(event, Samples) for at in event.application.tolist()]


def test_applications_that_end_unseen_leave_nothing_behind() -> None:
    """With room for ten: a hundred snapshots that each miss the ends of ten jobs, and every new job is kept."""
    rm = Rm(samples_max=10)
    for turn in range(100):
        numbers = range(10 * turn, 10 * turn + 10)
        found = rm.snapshot(*numbers)
        assert told_of(found) == []
        rm.learn(*range(10))
        assert rm.known() == sorted(map(name, numbers))
        assert "no more" not in rm.source.summary()
    assert rm.store.kept[name(0)] is None, "the store forgets it too"
    assert rm.store.kept[name(999)] == SAMPLE


def test_samples_are_sent_with_the_new_indices() -> None:
    rm = Rm()
    rm.snapshot(1, 2, 3)
    rm.learn(0, 2)
    assert told_of(rm.snapshot(2, 3)) == [1]
    assert rm.known() == [name(3)]


def test_a_new_connection_may_tell_of_an_application_later() -> None:
    rm = Rm()
    rm.snapshot(1, 2)
    rm.learn(0, 1)
    rm.epoch = 2
    assert told_of(rm.snapshot(2)) == [0]
    assert rm.known() == [name(1), name(2)]
    assert told_of(rm.delta((1, 1))) == [1], "it has come back: an RM that started anew was recovering"
    rm.now_ms += ABSENT_MS
    rm.delta()
    assert rm.known() == [name(1), name(2)]


def test_what_does_not_come_back_is_forgotten_after_a_while() -> None:
    rm = Rm()
    rm.snapshot(1, 2)
    rm.learn(0, 1)
    rm.epoch = 2
    rm.snapshot(2)
    rm.now_ms += ABSENT_MS - 2000
    rm.delta()
    assert rm.known() == [name(1), name(2)]
    rm.delta()
    assert rm.known() == [name(2)]
    assert rm.store.kept[name(1)] is None


def test_a_snapshot_is_compared_when_all_of_it_has_come() -> None:
    rm = Rm()
    rm.snapshot(1, 2)
    rm.learn(0, 1)
    assert rm.snapshot(2, more=True) == []
    assert rm.known() == [name(1), name(2)]
    assert sorted(told_of(rm.delta((1, 1)))) == [0, 1]
    assert rm.known() == [name(1), name(2)]


def test_what_the_store_knows_of_others_makes_room() -> None:
    rm = Rm(samples_max=3, restored={name(number): SAMPLE for number in (10, 11, 12, 1)})
    assert told_of(rm.snapshot(1, 2, 3)) == [0], "sent though there was no room"
    rm.learn(1, 2)
    assert rm.known() == [name(1), name(2), name(3)]


def test_applications_beyond_the_bound_are_said() -> None:
    rm = Rm(samples_max=2)
    rm.snapshot(1, 2, 3)
    rm.learn(0, 1)
    assert rm.source.summary() == "history"
    rm.learn(2)
    assert rm.known() == [name(1), name(2)]
    assert rm.source.summary() == "history; what pilots say is kept of 2 jobs and no more"
    rm.delta((0, 1), state=ApplicationState.GONE)
    rm.learn(2)
    assert rm.known() == [name(2), name(3)]
    assert rm.source.summary() == "history"

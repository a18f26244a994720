"""One of several engines: transactions that must be whole, and what comes after a conflict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engine.fake_rm import FakeRM, assumed, cluster
from tests.support.optional import present

from treadle import events
from treadle.config.settings import GANG_MAX, Entry, Retry, RosterEngine, default_settings
from treadle.engine import Engine
from treadle.engine.several import LAPSES_MS, Attempts
from treadle.events import Fate, Proposals

RETRY = Retry(backoff_ms=1000, backoff_max_ms=3000, attempts_max=4)


def one_of_several(**entry: Any) -> Engine:
    own = RosterEngine("batch", "batch", 0, Entry(retry=RETRY, **entry), "")
    return Engine(replace(default_settings(), engine=own), tries_again=True)


class Cluster:
    """A ResourceManager with one leaf, and an engine that it asks."""

    def __init__(self, nodes: int, slots: int, **entry: Any) -> None:
        self.rm = cluster(*[(slots, slots)] * nodes)
        self.engine = one_of_several(**entry)

    def app(self, count: int, **more: Any) -> int:
        return self.rm.job(count, **more)

    def decide(self, now_ms: int, fate: Fate = Fate.COMMITTED, more: list[events.Event] | None = None) -> Proposals:
        """Tell the engine of everything, and let what it proposes have a fate."""
        return self.rm.turn(self.engine, now_ms, more=more or [], fate=fate)


def test_a_gang_is_proposed_as_a_whole_or_not_at_all() -> None:
    cluster = Cluster(1, 4, transactions="gang")
    gang = cluster.app(6)
    assert len(cluster.decide(1000)) == 0
    assert assumed(cluster.engine) == 0
    cluster.rm.node("more", (4, 4))
    assert len(cluster.decide(1999)) == 0, "it waits for backoff_ms"
    made = cluster.decide(2000)
    assert made.application.tolist() == [gang] * 6
    assert made.transaction is not None
    assert made.transaction.tolist() == [0] * 6


def test_what_a_gang_leaves_others_get() -> None:
    cluster = Cluster(1, 4, transactions="gang")
    cluster.app(6)
    cluster.decide(1000)
    small = cluster.app(2)
    assert cluster.decide(1001).application.tolist() == [small] * 2


def test_the_application_master_is_no_part_of_a_gang() -> None:
    cluster = Cluster(1, 4, transactions="gang")
    waiting = cluster.app(1, awaiting_am=True)
    made = cluster.decide(1000)
    assert made.application.tolist() == [waiting]
    assert made.transaction is None


def test_a_tag_asks_for_a_gang() -> None:
    cluster = Cluster(1, 4)
    tagged = cluster.app(9)
    name = cluster.rm._texts.index("treadle:gang=5")
    tags = events.Tags(np.array([tagged], np.int32), np.array([name], np.int32))
    assert len(cluster.decide(1000, more=[tags])) == 0
    cluster.rm.node("more", (2, 2))
    made = cluster.decide(2000)
    assert made.application.tolist() == [tagged] * 6
    assert made.transaction is not None
    assert set(made.transaction.tolist()) == {0}


def test_more_than_can_be_committed_together_is_reported() -> None:
    cluster = Cluster(1, 2 * GANG_MAX, transactions="gang")
    large = cluster.app(GANG_MAX + 1)
    small = cluster.app(2)
    assert set(cluster.decide(1000).application.tolist()) == {small}
    attempts = present(cluster.engine.attempts)
    assert [app for app, _ in attempts.diagnostics()] == [large]
    assert f"this needs {GANG_MAX + 1}: ask for fewer" in attempts.diagnostics()[0][1]
    cluster.rm.ask(large, 0, GANG_MAX, (1, 1))
    assert len(cluster.decide(1001)) == GANG_MAX
    assert attempts.diagnostics() == ()


def test_after_conflicts_an_application_waits_longer_and_longer_and_is_given_up() -> None:
    cluster = Cluster(1, 4)
    app = cluster.app(1)
    attempts = present(cluster.engine.attempts)
    for at_ms, after_ms in ((1000, 1000), (2000, 2000), (4000, 3000)):
        assert cluster.decide(at_ms, Fate.NODE_FULL).application.tolist() == [app]
        assert len(cluster.decide(at_ms, Fate.NODE_FULL)) == 0
        assert len(cluster.decide(at_ms + after_ms - 1, Fate.NODE_FULL)) == 0
    assert attempts.given_up() == ()
    assert cluster.decide(7000, Fate.CHANGED).application.tolist() == [app]
    assert len(cluster.decide(7001)) == 0
    assert [who for who, _ in attempts.given_up()] == [app]
    assert "after 4 conflicts" in attempts.given_up()[0][1]
    assert attempts.retries == 3


def test_a_conflict_keeps_nobody_off_a_node() -> None:
    cluster = Cluster(1, 4)
    cluster.app(1)
    cluster.decide(1000, Fate.NODE_FULL)
    cluster.decide(1000)
    other = cluster.app(1)
    assert cluster.decide(1001).application.tolist() == [other]


def test_what_is_placed_ends_a_row_of_conflicts() -> None:
    cluster = Cluster(2, 4)
    cluster.app(1)
    cluster.decide(1000, Fate.NODE_FULL)
    cluster.decide(1000)
    assert len(cluster.decide(2000)) == 1
    cluster.app(1)
    cluster.decide(2001, Fate.NODE_FULL)
    cluster.decide(2002)
    assert len(cluster.decide(3002)) == 1, "the first conflict of the other application"


def test_over_its_claim_an_engine_waits_and_gives_nobody_up() -> None:
    cluster = Cluster(1, 4)
    cluster.app(1)
    for at_ms in range(1000, 20_000, 1000):
        assert len(cluster.decide(at_ms, Fate.CLAIM)) == 1
        assert len(cluster.decide(at_ms, Fate.CLAIM)) == 0


def test_back_off_outlives_a_snapshot() -> None:
    cluster = Cluster(1, 4)
    app = cluster.app(1)
    cluster.decide(1000, Fate.NODE_FULL)
    cluster.decide(1000)
    cluster.rm.snapshot_next()
    assert len(cluster.decide(1999)) == 0
    assert cluster.decide(2000).application.tolist() == [app]


def test_an_engine_that_is_alone_does_nothing_of_it() -> None:
    settings = default_settings()
    assert Engine(settings, tries_again=True).attempts is None
    own = RosterEngine("batch", "batch", 0, Entry(), "")
    assert Engine(replace(settings, engine=own)).attempts is None


def test_a_roster_that_comes_later_is_followed() -> None:
    engine = Engine(default_settings(), tries_again=True)
    own = RosterEngine("batch", "batch", 0, Entry(), "")
    engine.configure(replace(default_settings(), engine=own))
    assert engine.attempts is not None
    engine.configure(default_settings())
    assert engine.attempts is None


def test_a_gang_that_no_answer_can_hold_is_reported() -> None:
    cluster = Cluster(1, 100, transactions="gang")
    limits = default_settings().limits.model_copy(update={"proposals_max": 10})
    cluster.engine.configure(replace(cluster.engine.running, limits=limits))
    cluster.app(11)
    assert len(cluster.decide(1000)) == 0
    attempts = present(cluster.engine.attempts)
    assert "at most 10 containers at once; this needs 11" in attempts.diagnostics()[0][1]


# One of several engines leaves to queues of others what these are guaranteed and ask for.

OWN = RosterEngine("batch", "batch", 0, Entry(), "")


class Guarantees:
    """Ten slots; of these a leaf of the engine's own is guaranteed four, two leaves of others four and two."""

    def __init__(self, *, several: bool = True) -> None:
        self.rm = FakeRM()
        root = self.rm.queue(-1, (10, 10), (10, 10))
        self.mine = self.rm.queue(root, (4, 4), (10, 10))
        parent = self.rm.queue(root, (6, 6), (10, 10))
        self.theirs = self.rm.queue(parent, (4, 4), (10, 10))
        self.rm.queue(parent, (2, 2), (10, 10))
        self.rm.node("one", (10, 10))
        self.parent = parent
        settings = replace(default_settings(), engine=OWN) if several else default_settings()
        self.engine = Engine(settings)

    def ask(self, count: int) -> None:
        self.rm.job(count, queue=self.mine)
        self.rm.queues[self.mine].pending = (count, count)

    def others_ask(self, count: int) -> None:
        for queue in (self.theirs, self.parent):
            self.rm.queues[queue].pending = (count, count)

    def placed(self, now_ms: int) -> int:
        return len(self.rm.turn(self.engine, now_ms))


@pytest.mark.parametrize(
    ("several", "asked", "placed"),
    [
        pytest.param(True, 3, 7, id="within their guarantee"),
        pytest.param(True, 50, 4, id="beyond their guarantee both of their leaves are owed 6"),
        pytest.param(True, 0, 10, id="what is not asked for is not left"),
        pytest.param(False, 3, 10, id="an engine that is alone leaves nothing"),
    ],
)
def test_what_others_are_guaranteed_and_ask_for_is_left_to_them(several: bool, asked: int, placed: int) -> None:
    cluster = Guarantees(several=several)
    cluster.ask(20)
    cluster.others_ask(asked)
    assert cluster.placed(1000) == placed
    assert ("guaranteed to queues of other engines" in cluster.engine.waits_for()) == (placed < 10)


def test_who_has_its_guarantee_is_owed_nothing() -> None:
    cluster = Guarantees()
    other = cluster.rm.application(cluster.theirs)
    cluster.rm.ask(other, 0, 6, (1, 1))
    cluster.placed(1000)
    cluster.rm.ask(other, 0, 0, (1, 1))
    cluster.ask(20)
    cluster.others_ask(9)
    assert cluster.placed(1001) == 4


def test_what_is_owed_for_long_and_not_taken_is_given_to_others() -> None:
    cluster = Guarantees()
    cluster.ask(20)
    cluster.others_ask(3)
    assert cluster.placed(1000) == 7
    assert cluster.placed(1000 + LAPSES_MS - 1) == 0
    assert cluster.placed(1000 + LAPSES_MS) == 3


def test_when_others_have_gone_nothing_is_left() -> None:
    cluster = Guarantees()
    cluster.ask(20)
    cluster.others_ask(3)
    assert cluster.placed(1000) == 7
    cluster.engine.configure(default_settings())
    assert cluster.placed(1001) == 3


def test_transactions_that_are_too_large_are_found_without_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, looked = Cluster(1, 4, transactions="gang"), list[int]()
    large = [cluster.app(GANG_MAX + 1) for _ in range(10)]
    needed = Attempts._needed

    def counted(attempts: Attempts, model: Any, view: Any, app: int) -> int:
        looked.append(app)
        return needed(attempts, model, view, app)

    monkeypatch.setattr(Attempts, "_needed", counted)
    tagged = cluster.app(GANG_MAX + 2)
    tags = events.Tags(np.array([tagged], np.int32), np.array([cluster.rm._texts.index("treadle:gang=513")], np.int32))
    cluster.decide(1000, more=[tags])
    assert [app for app, _ in present(cluster.engine.attempts).diagnostics()] == [*large, tagged]
    assert looked == [tagged]

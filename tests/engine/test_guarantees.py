"""One of several engines leaves to queues of others what these are guaranteed and ask for."""

from __future__ import annotations

from dataclasses import replace

from tests.engine.fake_rm import FakeRM

from treadle.config.settings import Entry, RosterEngine, default_settings
from treadle.engine import Engine
from treadle.engine.several import LAPSES_MS

OWN = RosterEngine("batch", "batch", 0, Entry(), "")


class Cluster:
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
        self.rm.ask(self.rm.application(self.mine), 0, count, (1, 1))
        self.rm.queues[self.mine].pending = (count, count)

    def others_ask(self, count: int) -> None:
        for queue in (self.theirs, self.parent):
            self.rm.queues[queue].pending = (count, count)

    def placed(self, now_ms: int) -> int:
        self.engine.apply(self.rm.frame())
        made = self.engine.decide(now_ms, 1000, sequence=self.rm.sequence)
        self.rm.commit(made)
        return len(made)


def test_what_others_ask_for_within_their_guarantee_is_left_to_them() -> None:
    cluster = Cluster()
    cluster.ask(20)
    cluster.others_ask(3)
    assert cluster.placed(1000) == 7
    assert "guaranteed to queues of other engines" in cluster.engine.waits_for()


def test_beyond_their_guarantee_they_are_owed_nothing() -> None:
    cluster = Cluster()
    cluster.ask(20)
    cluster.others_ask(50)
    assert cluster.placed(1000) == 4, "both of their leaves are owed 6"


def test_what_nobody_asks_for_is_not_left() -> None:
    cluster = Cluster()
    cluster.ask(20)
    assert cluster.placed(1000) == 10
    assert cluster.engine.waits_for() == ""


def test_who_has_its_guarantee_is_owed_nothing() -> None:
    cluster = Cluster()
    other = cluster.rm.application(cluster.theirs)
    cluster.rm.ask(other, 0, 6, (1, 1))
    cluster.engine.apply(cluster.rm.frame())
    cluster.rm.commit(cluster.engine.decide(1000, 1000, sequence=cluster.rm.sequence))
    cluster.rm.ask(other, 0, 0, (1, 1))
    cluster.ask(20)
    cluster.others_ask(9)
    assert cluster.placed(1001) == 4


def test_what_is_owed_for_long_and_not_taken_is_given_to_others() -> None:
    cluster = Cluster()
    cluster.ask(20)
    cluster.others_ask(3)
    assert cluster.placed(1000) == 7
    assert cluster.placed(1000 + LAPSES_MS - 1) == 0
    assert cluster.placed(1000 + LAPSES_MS) == 3


def test_an_engine_that_is_alone_leaves_nothing() -> None:
    cluster = Cluster(several=False)
    cluster.ask(20)
    cluster.others_ask(3)
    assert cluster.placed(1000) == 10


def test_when_others_have_gone_nothing_is_left() -> None:
    cluster = Cluster()
    cluster.ask(20)
    cluster.others_ask(3)
    assert cluster.placed(1000) == 7
    cluster.engine.configure(default_settings())
    assert cluster.placed(1001) == 3

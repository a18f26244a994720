"""The gate bounds how many application masters start at a time."""

from __future__ import annotations

from typing import Any

from tests.engine.fake_rm import cluster
from tests.engine.parts import engine_with

MAP = 20
TIMEOUT_MS = 60_000


class Bench:
    """Two leaves with room for all, and an engine whose answers are committed."""

    def __init__(self, masters: int = 2, **more: Any) -> None:
        self.rm, self.leaves = cluster((100, 100), leaves=2), (1, 2)
        self.engine = engine_with(gate=("pilots", {"max_concurrent_am_starts": masters, "thin_limit": 9} | more))
        self.now_ms = 1_000_000

    def submit(self, leaf: int = 0, size: int = 1, user: str = "u", **more: Any) -> int:
        self.now_ms += 1
        told = {"awaiting_am": True, "kind": "MAPREDUCE", "user": user, "start_ms": self.now_ms}
        app = self.rm.application(self.leaves[leaf], **told)
        self.rm.ask(app, 0, 1, (size, size), priority=0, **more)
        return app

    def begun(self, after_ms: int = 1000) -> list[int]:
        """Decide, and return whose containers begin."""
        self.now_ms += after_ms
        found: list[int] = self.rm.turn(self.engine, self.now_ms).application.tolist()
        return found

    def asks(self, app: int) -> None:
        self.rm.ask(app, 1, 1, (1, 1), priority=MAP)


def test_one_starts_when_another_has_asked_for_its_first_task() -> None:
    bench = Bench()
    first, second, third, fourth = (bench.submit() for _ in range(4))
    assert bench.begun() == [first, second]
    assert bench.begun() == []
    bench.asks(second)
    assert sorted(bench.begun()) == [second, third]
    assert bench.begun() == [], "tasks that run do not make a master start again"
    bench.asks(first)
    assert sorted(bench.begun()) == [first, fourth]


def test_they_start_in_the_order_in_which_they_came_whatever_their_queue() -> None:
    bench = Bench(masters=1)
    first, second, third = bench.submit(1), bench.submit(0), bench.submit(1)
    assert bench.begun() == [first]
    bench.asks(first)
    assert sorted(bench.begun()) == [first, second]
    bench.asks(second)
    assert sorted(bench.begun()) == [second, third]


def test_a_master_that_asks_for_nothing_makes_way_after_a_while() -> None:
    bench = Bench(masters=1)
    first, second = bench.submit(), bench.submit()
    assert bench.begun() == [first]
    assert bench.begun() == []
    assert bench.begun(TIMEOUT_MS - 1000) == []
    assert bench.begun(1000) == [second]


def test_a_clock_that_steps_back_holds_nobody_for_longer() -> None:
    bench = Bench(masters=1)
    bench.submit()
    bench.begun()
    bench.begun()
    second = bench.submit()
    bench.now_ms -= 500_000
    assert bench.begun() == []
    assert bench.begun(TIMEOUT_MS) == [second]


def test_a_full_queue_keeps_no_other_queue_waiting() -> None:
    bench = Bench()
    bench.rm.queues[bench.leaves[0]].maximum = (1, 1)
    runs = bench.submit(0)
    assert bench.begun() == [runs]
    bench.asks(runs)
    stuck = [bench.submit(0), bench.submit(0)]
    others = [bench.submit(1) for _ in range(3)]
    assert bench.begun() == others[:2]
    for app in others[:2]:
        bench.asks(app)
    assert sorted(bench.begun()) == others
    bench.rm.queues[bench.leaves[0]].maximum = (9, 9)
    bench.asks(others[2])
    assert sorted(bench.begun())[: len(stuck) + 1] == [runs, *stuck], "the first who came, now that they have room"


def test_a_user_at_the_limit_keeps_no_other_user_waiting() -> None:
    bench = Bench(masters=1)
    bench.rm.user_limit["ann"] = (1, 1)
    first = [bench.submit(user="ann") for _ in range(2)]
    assert bench.begun() == first[:1]
    bench.asks(first[0])
    assert bench.begun() == first[1:], "one beyond the limit, as YARN does"
    bench.asks(first[1])
    bench.submit(user="ann")
    last = bench.submit(user="bob")
    assert bench.begun() == [last]


def test_masters_for_which_no_node_has_room_keep_no_others_waiting() -> None:
    bench = Bench(masters=1)
    bench.rm.node("labelled", (1, 1), partition="gpu")
    taken = bench.submit(partition="gpu")
    assert bench.begun() == [taken]
    bench.asks(taken)
    bench.begun()
    bench.submit(partition="gpu")
    bench.submit(size=100)
    third = bench.submit()
    assert bench.begun() == [third]


def test_no_more_start_when_room_appears_for_many() -> None:
    bench = Bench()
    full = bench.submit(size=100)
    assert bench.begun() == [full]
    waiting = [bench.submit() for _ in range(6)]
    bench.asks(full)
    assert bench.begun() == []
    bench.rm.complete(0)
    assert sorted(set(bench.begun()) - {full}) == waiting[:2]


def test_without_a_bound_all_start_at_once() -> None:
    bench = Bench(masters=0)
    apps = [bench.submit() for _ in range(5)]
    assert bench.begun() == apps

"""The gate bounds how many application masters start at a time."""

from __future__ import annotations

from typing import Any

from tests.engine.fake_rm import FakeRM, flat
from tests.engine.parts import engine_with

MAP = 20
TIMEOUT_MS = 60_000


class Bench:
    """Two leaves with room for all, and an engine whose answers are committed."""

    def __init__(self, masters: int = 2, **more: Any) -> None:
        self.rm = FakeRM()
        self.rm.node("n0", (100, 100))
        self.leaves = flat(self.rm, 2, (50, 50))
        self.engine = engine_with(gate=("pilots", {"masters_starting": masters, "thin_limit": 9} | more))
        self.now_ms = 1_000_000

    def submit(self, leaf: int = 0) -> int:
        self.now_ms += 1
        app = self.rm.application(self.leaves[leaf], awaiting_am=True, kind="MAPREDUCE", start_ms=self.now_ms)
        self.rm.ask(app, 0, 1, (1, 1), priority=0)
        return app

    def begun(self, after_ms: int = 1000) -> list[int]:
        """Decide, and return whose containers begin."""
        self.now_ms += after_ms
        self.engine.apply(self.rm.frame())
        made = self.engine.decide(self.now_ms, 1000, sequence=self.rm.sequence)
        self.rm.commit(made)
        return [int(app) for app in made.application]

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


def test_without_a_bound_all_start_at_once() -> None:
    bench = Bench(masters=0)
    apps = [bench.submit() for _ in range(5)]
    assert bench.begun() == apps

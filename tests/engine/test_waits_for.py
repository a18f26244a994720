"""What an engine says that it waits for, and names in its answers: asks that could be served, held back on purpose."""

from __future__ import annotations

from pathlib import Path

from tests.engine.fake_rm import FakeRM, flat
from tests.engine.parts import engine_with
from tests.engine.test_engine_order import placed
from tests.engine.test_engine_placement import big_and_small, ticks_until_big
from tests.engine.test_fits import overbooking
from tests.engine.test_headroom import cluster, kept
from tests.engine.test_mapreduce_gate import Bench as Workers
from tests.engine.test_masters_starting import Bench as Masters
from tests.engine.test_pilots import Bench

from treadle.config.reader import read_settings
from treadle.config.settings import Hold
from treadle.engine import Engine


def held(engine: Engine) -> tuple[list[int], list[int]]:
    """Return the applications and nodes that are held back."""
    applications, nodes = engine.held()
    return applications.tolist(), nodes.tolist()


NOTHING = "class Nothing:\n    def allows(self, view):\n        return view.request_count < 0\n"


def test_nothing_is_waited_for_without_a_reason() -> None:
    rm = FakeRM()
    rm.node("n", (10, 10))
    (leaf,) = flat(rm, 1, (10, 10))
    rm.ask(rm.application(leaf), 0, 100, (1, 1))
    engine = engine_with()
    assert engine.waits_for() == ""
    engine.apply(rm.frame())
    assert len(engine.decide(1000, 1000, sequence=rm.sequence)) == 10
    assert engine.waits_for() == "", "a full cluster is nothing to wait for"
    assert held(engine) == ([], [])


def test_pilots_are_waited_for_until_they_have_ended() -> None:
    bench = Bench()
    app = bench.job(100)
    assert len(bench.begun()) == 10
    assert bench.begun() == []
    assert bench.engine.waits_for() == "pilots"
    assert held(bench.engine) == ([app], [])
    bench.end(10)
    assert len(bench.begun()) == 90
    assert bench.begun() == []
    assert bench.engine.waits_for() == ""
    assert held(bench.engine) == ([], [])


def test_masters_that_start_are_waited_for() -> None:
    bench = Masters(masters=1)
    first, second = bench.submit(), bench.submit()
    assert bench.begun() == [first]
    assert held(bench.engine) == ([second], [])
    assert bench.engine.waits_for() == "application masters that start"


def test_a_held_node_is_waited_for() -> None:
    rm, engine = big_and_small(Hold(nodes_max=1, duration_ms=30_000))
    assert ticks_until_big(rm, engine, 6) == 6, "it is still held"
    assert engine.waits_for() == "a held node"
    assert len(held(engine)[1]) == 1
    assert ticks_until_big(rm, engine, 30) < 30
    placed(rm, 100, engine, now_ms=90_000)
    assert engine.waits_for() == ""
    assert held(engine)[1] == []


def test_a_bound_that_the_rm_does_not_know_is_waited_for() -> None:
    engine, rm = overbooking((1, 0))
    engine.apply(rm.frame())
    engine.decide(1000, 1000, sequence=rm.sequence)
    assert engine.waits_for() == "room within the bounds of overbook"
    assert held(engine) == ([], [0])
    engine, rm = overbooking((1, 1))
    engine.apply(rm.frame())
    engine.decide(1000, 1000, sequence=rm.sequence)
    assert engine.waits_for() == "", "there the RM would refuse"
    assert held(engine) == ([], [])


def test_a_gate_from_a_file_gives_no_reason(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(NOTHING)
    (tmp_path / "t.yaml").write_text("policy:\n  gate: {kind: file, path: gate.py, class: Nothing}\n")
    rm = FakeRM()
    rm.node("n", (10, 10))
    (leaf,) = flat(rm, 1, (10, 10))
    rm.ask(rm.application(leaf), 0, 1, (1, 1))
    engine = Engine(read_settings(tmp_path / "t.yaml"))
    engine.apply(rm.frame())
    assert len(engine.decide(1000, 1000, sequence=rm.sequence)) == 0
    assert engine.failure is None
    assert engine.waits_for() == ""
    assert held(engine) == ([0], [])


def test_workers_of_mapreduce_jobs_are_held_back() -> None:
    bench = Workers(policy="as_requested", workers=4)
    app = bench.job(10)
    assert bench.begun() == {app: 4}
    assert held(bench.engine) == ([app], [])
    bench.end(4, app)
    bench.begun()
    bench.end(4, app)
    assert bench.begun() == {app: 2}
    assert held(bench.engine) == ([], [])


def test_a_node_that_keeps_room_for_a_larger_ask_is_named() -> None:
    rm = cluster((8, 8), (8, 8))
    rm.ask(rm.application(1), 0, 5, (1, 1))
    rm.ask(rm.application(2), 0, 100, (4, 4))
    engine = Engine(kept("none"))
    placed(rm, 100, engine)
    assert held(engine) == ([], [0, 1])


def test_nothing_is_named_while_the_stock_scheduler_places() -> None:
    bench = Bench()
    bench.job(100)
    bench.begun()
    engine = bench.engine
    assert held(engine)[0]
    engine.decide(bench.now_ms + 5_000, 10, sequence=99, assume=False)
    assert held(engine) == ([], [])

"""How often proposals for an application were turned down, by reason: kept, bounded, forgotten with it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.fake_rm import FakeRM
from tests.engine.parts import settings_with

from treadle.engine import Engine
from treadle.events import ApplicationState, Fate
from treadle.explain.application import explain_application
from treadle.explain.causes import Explanation
from treadle.explain.situation import Situation
from treadle.model import in_flight
from treadle.model.in_flight import PROPOSAL, TurnedDown


def explained(engine: Engine, application: int) -> Explanation:
    situation = Situation.of(engine)
    assert situation is not None
    return explain_application(situation.copied(), application)


def turn(engine: Engine, rm: FakeRM, fate: Fate) -> None:
    """Let the engine decide, and the ResourceManager turn all of it down, or commit it."""
    engine.apply(rm.frame())
    made = engine.decide(1000 * rm.sequence, 256, sequence=rm.sequence)
    assert len(made)
    rm.commit(made, lambda _: fate)


@pytest.fixture
def rm() -> FakeRM:
    rm = FakeRM()
    root = rm.queue(-1, (65536, 64))
    leaf = rm.queue(root, (65536, 64))
    for at in range(4):
        rm.node(f"n{at}", (16384, 16))
    rm.ask(rm.application(leaf), 0, 2, (1024, 1))
    return rm


def test_each_reason_is_counted_by_its_own_name(rm: FakeRM) -> None:
    engine = Engine(settings_with())
    turn(engine, rm, Fate.OVER_BATCH)
    turn(engine, rm, Fate.NODE_FULL)
    engine.apply(rm.frame())
    found = explained(engine, 0)
    assert found.turned_down == {"node_full": 2, "over_batch": 2}
    assert "conflicts" not in found.plain(), "a user's limit is no room that others took"


@pytest.mark.parametrize("fate", [Fate.COMMITTED, Fate.OBSERVED])
def test_what_is_no_refusal_is_not_counted(rm: FakeRM, fate: Fate) -> None:
    engine = Engine(settings_with())
    turn(engine, rm, fate)
    engine.apply(rm.frame())
    assert explained(engine, 0).turned_down == {}


def test_it_outlives_a_snapshot_and_goes_with_the_application(rm: FakeRM) -> None:
    engine = Engine(settings_with())
    turn(engine, rm, Fate.NODE_FULL)
    engine.apply(rm.frame())
    rm.snapshot_next()
    engine.apply(rm.frame())
    engine.decide(1000 * rm.sequence, 0, sequence=rm.sequence)
    assert explained(engine, 0).turned_down == {"node_full": 2}
    rm.applications[0].state = ApplicationState.GONE
    engine.apply(rm.frame())
    inside = engine.inside()
    assert inside is not None
    assert inside[0].turned_down.counts == {}


def test_so_many_applications_are_kept_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "APPLICATIONS_MAX", 3)
    counts = TurnedDown()
    batch = np.zeros(5, PROPOSAL)
    batch["application"] = range(5)
    fates = np.full(7, Fate.USER_LIMIT, np.uint8)
    counts.note(batch, np.arange(-1, 6, dtype=np.int32), fates)
    assert list(counts.counts) == [2, 3, 4]

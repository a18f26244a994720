"""Hints about tasks reach the request rows, whichever comes first, and go with the application."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.fake_rm import FakeRM, flat
from tests.engine.parts import estimates, ranks

from treadle import events
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.events import ApplicationState
from treadle.model.tables import ModelError


def asking() -> tuple[FakeRM, int]:
    rm = FakeRM()
    rm.node("n0", (8, 8))
    (leaf,) = flat(rm, 1, (8, 8))
    app = rm.application(leaf)
    rm.ask(app, 3, 2, (2, 1), priority=7)
    return rm, app


def row_of(engine: Engine, app: int, key: int) -> Any:
    """Return the hint of a request row, with its ask, or None."""
    view = engine._cluster.view()  # type: ignore[union-attr]
    row = engine._cluster.requests.index.find(app, key)  # type: ignore[union-attr]
    told = int(view.rows["hint"][row])
    return None if told < 0 else (view.hints[told], view.hint_capability[told].tolist())


@pytest.mark.parametrize("told_first", [True, False])
def test_a_hint_reaches_the_row_whichever_comes_first(told_first: bool) -> None:
    rm, app = asking()
    engine = Engine(default_settings())
    frame = rm.frame()
    told: list[events.Event] = [estimates((app, 3, 5000, 9)), ranks((app, 3, 0.25))]
    at = next(i for i, event in enumerate(frame) if isinstance(event, events.Requests))
    engine.apply(frame[:at] + told + frame[at:] if told_first else frame + told)
    record, ask = row_of(engine, app, 3)
    assert (record["duration_ms"], record["tasks"], record["score"]) == (5000, 9, 0.25)
    assert (ask, record["priority"]) == ([2, 1], 7)


def test_estimates_are_absolute_and_leave_ranks_alone() -> None:
    rm, app = asking()
    engine = Engine(default_settings())
    engine.apply([*rm.frame(), ranks((app, 3, 0.5)), estimates((app, 3, 5000, 9))])
    engine.apply([estimates((app, 3, -1, 4))])
    record, _ = row_of(engine, app, 3)
    assert (record["duration_ms"], record["tasks"], record["score"]) == (-1, 4, 0.5)


def test_they_outlive_the_asks_and_go_with_the_application() -> None:
    rm, app = asking()
    engine = Engine(default_settings())
    engine.apply([*rm.frame(), estimates((app, 3, 5000, 2))])
    rm.commit(engine.decide(0, 10, sequence=rm.sequence))
    engine.apply(rm.frame())
    told = engine._cluster.hints  # type: ignore[union-attr]
    assert engine._cluster.requests.index.find(app, 3) == -1  # type: ignore[union-attr]
    assert told.at["tasks"][told.index.find(app, 3)] == 2
    rm.applications[app].state = ApplicationState.GONE
    rm.change(app)
    engine.apply(rm.frame())
    assert told.index.find(app, 3) == -1
    engine.apply([estimates((app + 1, 0, 1, 1))])
    assert told.size == 1, "its row is used again"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (estimates((0, 3, -2, 0)), "duration_ms is -2"),
        (estimates((0, 3, 1, -7)), "tasks is -7"),
        (ranks((0, 3, 1.5)), "between 0 and 1"),
        (ranks((0, 3, float("nan"))), "between 0 and 1"),
        (estimates((0, -1, 1, 1)), "request key index -1"),
    ],
)
def test_impossible_numbers_are_refused(event: events.Event, text: str) -> None:
    rm, _ = asking()
    engine = Engine(default_settings())
    engine.apply(rm.frame())
    with pytest.raises(ModelError, match=text):
        engine.apply([event])

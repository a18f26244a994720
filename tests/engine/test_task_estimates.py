"""Hints about tasks reach the request rows, whichever comes first, and go with the application."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.fake_rm import LEAF, FakeRM, cluster, flat
from tests.engine.parts import claims, containers, engine_with, estimates, ranks

from treadle import events
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.events import ApplicationState, ContainerEvent
from treadle.model.tables import ModelError


def asking() -> tuple[FakeRM, int]:
    rm = cluster((8, 8))
    app = rm.application(LEAF)
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


# What an application says of its own tasks never counts below what the ResourceManager sees.

DEFAULT_MS = 30_000
PART = 1.0


def shared(engine: Engine, claim: Any) -> list[int]:
    """Return what of ten slots who asks for 5 tasks of 10 s gets, and who asks for 10,000 and claims otherwise."""
    rm = cluster((10, 10))
    honest, liar = rm.application(LEAF, start_ms=1), rm.application(LEAF, start_ms=2)
    rm.ask(honest, 0, 5, (1, 1), priority=5)
    rm.ask(liar, 0, 10_000, (1, 1), priority=5)
    engine.apply([*rm.frame(), claims((honest, 0, 10_000, 5)), claim(liar)])
    made = engine.decide(1_000, 100, sequence=rm.sequence)
    return [int(count) for count in np.bincount(made.application, minlength=2)]


@pytest.mark.parametrize(
    "order", ["srpt", ("mlfq", {"first_threshold_ms": 200_000, "size": "estimated_total"}), "mlfq"]
)
@pytest.mark.parametrize("estimate", ["hints", "combined", "pilots", "observed", "none"])
def test_who_claims_to_be_done_and_asks_for_10_000_tasks_gets_what_is_left(order: Any, estimate: str) -> None:
    engine = engine_with(order=order, estimate=estimate)
    assert shared(engine, lambda liar: claims((liar, 0, 1, 0))) == [5, 5]


def test_who_knows_better_is_believed() -> None:
    """A store or an oracle that says how long tasks take is not the application."""
    assert shared(engine_with(order="srpt", estimate="hints"), lambda liar: estimates((liar, 0, 1, 0))) == [0, 10]


class Clustered:
    """An application with one request key, and what the engine believes of it."""

    def __init__(self, asked: int) -> None:
        self.rm = FakeRM()
        self.rm.node("n0", (1, 1))
        (leaf,) = flat(self.rm, 1, (1, 1))
        self.app = self.rm.application(leaf)
        self.rm.ask(self.app, 0, asked, (2, 2), priority=5)
        self.engine = engine_with(order="srpt", estimate="hints")
        self.engine.apply(self.rm.frame())

    def run(self, *created_ms: int) -> None:
        for number, since_ms in enumerate(created_ms):
            self.engine.apply([containers(ContainerEvent.LAUNCHED, (self.app, number, 5, since_ms, since_ms))])

    def end(self, created_ms: int, ended_ms: int, exit_status: int = 0) -> None:
        life = (self.app, 0, 5, created_ms, ended_ms)
        self.engine.apply([containers(ContainerEvent.COMPLETED, life, exit_status=exit_status)])

    def believed(self, duration_ms: int, tasks: int, now_ms: int = 0) -> tuple[int, int]:
        """Return duration and tasks after a claim."""
        self.engine.apply([claims((self.app, 0, duration_ms, tasks))])
        self.engine._cluster.changed = True  # type: ignore[union-attr]
        self.engine.decide(now_ms, 10, sequence=self.rm.sequence)
        told = self.engine._cluster.hints  # type: ignore[union-attr]
        row = told.at[told.index.find(self.app, 0)]
        return int(row["duration_ms"]), int(row["tasks"])


def test_before_the_rm_has_seen_anything_a_part_of_the_default_is_the_least() -> None:
    job = Clustered(asked=7)
    assert job.believed(1, 0) == (DEFAULT_MS * PART, 7)
    assert job.believed(60_000, 9) == (60_000, 9), "more is believed"
    assert job.believed(-1, -1) == (-1, -1), "nothing is claimed"


def test_what_runs_counts_with_its_age() -> None:
    job = Clustered(asked=7)
    job.run(0, 0, 0)
    assert job.believed(1, 0, now_ms=1_000) == (DEFAULT_MS * PART, 10)
    assert job.believed(1, 0, now_ms=800_000) == (800_000 * PART, 10), "and the floor rises though nothing is said"


@pytest.mark.parametrize(
    ("life_ms", "exit_status", "claim", "believed"),
    [
        pytest.param(80_000, 0, (1, 0), (80_000 * PART, 1), id="what ended counts with its life"),
        pytest.param(2_000, 0, (2_000, 5), (2_000, 5), id="short lives leave short claims as they are"),
        pytest.param(800_000, -100, (1, 0), (DEFAULT_MS * PART, 1), id="what was given back hides nothing"),
    ],
)
def test_lives_bound_what_is_claimed(
    life_ms: int, exit_status: int, claim: tuple[int, int], believed: tuple[float, int]
) -> None:
    job = Clustered(asked=1)
    job.run(0)
    job.end(0, life_ms, exit_status)
    assert job.believed(*claim, now_ms=life_ms + 10_000) == believed


@given(
    claimed=st.tuples(st.integers(-1, 10**7), st.integers(-1, 2**40)),
    asked=st.integers(1, 10**5),
    ages_ms=st.lists(st.integers(0, 10**6), max_size=5),
)
@settings(max_examples=50, deadline=None)
def test_whatever_is_claimed_the_work_left_is_no_less_than_what_is_asked_for(
    claimed: tuple[int, int], asked: int, ages_ms: list[int]
) -> None:
    job = Clustered(asked)
    now_ms = 2 * 10**6
    job.run(*(now_ms - age for age in ages_ms))
    tasks, duration_ms = claimed
    believed = job.believed(duration_ms, tasks, now_ms)
    key = job.engine._policy.latest.apps["key"][job.app]  # type: ignore[union-attr]
    least_ms = PART * DEFAULT_MS if duration_ms >= 0 else DEFAULT_MS
    # an ask of two nodes' worth of both resources
    assert key >= asked * least_ms * 4 - 1e-6
    if tasks >= 0:
        assert believed[1] >= asked + len(ages_ms)

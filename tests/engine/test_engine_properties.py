"""What holds for any cluster and any course of events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.engine.fake_rm import FakeRM, assumed, none_assumed
from tests.engine.parts import any_parts, engine_with, settings_with

from treadle.config.settings import EngineReservation, Settings, default_settings
from treadle.engine import Engine
from treadle.events import ApplicationState, Fate, NodeState, Proposals

COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NO_DELAY = {"node-locality-delay": "0", "rack-locality-additional-delay": "0"}
REJECTIONS = [fate for fate in Fate if fate not in (Fate.COMMITTED, Fate.OBSERVED)]


def without_holds() -> Settings:
    return replace(default_settings(), engine_reservation=EngineReservation(nodes_max=0))


@st.composite
def clusters(draw: Any, delays: dict[str, str] = NO_DELAY) -> FakeRM:
    """Return a cluster with a tree of queues, labels, limits, blacklists, localities."""
    shared = {"shared-partitions": draw(st.sampled_from(["", "gpu"]))}
    rm = FakeRM(counted=draw(st.sampled_from([(1, 1), (1, 0)])), settings=delays | shared)
    for at in range(draw(st.integers(1, 6))):
        total = (draw(st.integers(1, 12)), draw(st.integers(1, 12)))
        rm.node(f"n{at}", total, rack=f"/r{at % 2}", partition=draw(st.sampled_from(["", "", "", "gpu"])))
    size = tuple(sum(node.total[r] for node in rm.nodes) for r in (0, 1))
    root = rm.queue(-1, (size[0], size[1]))
    middle = rm.queue(root, (size[0] // 2, size[1] // 2), maximum=draw(amounts(size)))
    leaves = []
    for parent in [root, middle, middle]:
        share = (size[0] // draw(st.integers(1, 4)), size[1] // 2)
        order = draw(st.sampled_from(["fifo", "fair"]))
        leaves.append(
            rm.queue(parent, share, maximum=draw(amounts(size)), order=order, priority=draw(st.integers(0, 1)))
        )
    if draw(st.booleans()):
        rm.user_limit["u"] = draw(amounts(size))
    for _ in range(draw(st.integers(1, 5))):
        app = rm.application(draw(st.sampled_from(leaves)), user=draw(st.sampled_from(["u", "v"])))
        rm.applications[app].blacklist = draw(st.lists(st.sampled_from(["n0", "n1", "/r1"]), max_size=1))
        rm.applications[app].priority = draw(st.integers(0, 2))
        for key in range(draw(st.integers(0, 3))):
            draw_ask(draw, rm, app, key)
    return rm


def amounts(size: tuple[int, ...]) -> Any:
    return st.tuples(st.integers(1, max(size[0], 1)), st.integers(1, max(size[1], 1)))


def draw_ask(draw: Any, rm: FakeRM, app: int, key: int) -> None:
    places: dict[str, tuple[int, bool]] = {}
    relax = draw(st.sampled_from([True, True, False]))
    if draw(st.booleans()):
        rack_relax = draw(st.booleans())
        for at in draw(st.sets(st.integers(0, len(rm.nodes) - 1), max_size=3)):
            places[rm.nodes[at].name] = (draw(st.integers(1, 3)), True)
            places[rm.nodes[at].rack] = (draw(st.integers(1, 4)), rack_relax)
    capability = (draw(st.integers(1, 8)), draw(st.integers(1, 4)))
    partition = draw(st.sampled_from(["", "", "", "gpu"]))
    more = {"priority": draw(st.integers(0, 3)), "relax": relax, "places": places, "partition": partition}
    rm.ask(app, key, draw(st.integers(1, 6)), capability, **more)


NARROW = [
    {"share": "drf", "order": "las", "fit": ("tetris", {"candidates": 2})},
    {"share": "hdrf", "fit": ("tetris", {"candidates": 1, "remote_penalty": 1.0})},
]
"""Parts with parameters that make them look at less."""


def nothing_fits(rm: FakeRM) -> None:
    """Check that no ask is left that the RM would take."""
    for at, app in enumerate(rm.applications):
        for key in app.asks:
            for node in range(len(rm.nodes)):
                assert rm.why_not(at, key, node), f"application {at} key {key} would fit on node {node}"


@given(clusters(), st.one_of(any_parts(), any_parts(), any_parts(), st.sampled_from(NARROW)))
@COMMON
def test_any_part_goes_with_any_other_and_leaves_nothing_that_fits(rm: FakeRM, parts: dict[str, Any]) -> None:
    """No node over its capacity, nobody over a limit (the fake RM checks), work conserving, deterministic."""
    frame = rm.frame()
    engine, again = engine_with(**parts), engine_with(**parts)
    engine.apply(frame)
    again.apply(frame)
    made = engine.decide(1000, 1000, sequence=rm.sequence)
    assert made.node.tobytes() == again.decide(1000, 1000, sequence=rm.sequence).node.tobytes()
    rm.commit(made)
    engine.apply(rm.frame())
    assert none_assumed(engine)
    nothing_fits(rm)


@given(clusters(), st.integers(1, 5))
@COMMON
def test_equal_events_give_equal_bytes_in_chunks_of_any_size(rm: FakeRM, chunk: int) -> None:
    frame = rm.frame()
    whole, again, chunked = Engine(without_holds()), Engine(without_holds()), Engine(without_holds())
    for engine in (whole, again, chunked):
        engine.apply(frame)
    first = whole.decide(1000, 1000, sequence=1)
    second = again.decide(1000, 1000, sequence=1)
    pieces = [chunked.decide(1000, chunk, sequence=at + 1) for at in range(len(first) // chunk + 1)]
    for column in ("application", "key", "node"):
        assert getattr(first, column).tobytes() == getattr(second, column).tobytes()
        joined = np.concatenate([getattr(piece, column) for piece in pieces])
        assert getattr(first, column).tobytes() == joined.tobytes()


class Course(RuleBasedStateMachine):
    """Any course of events, with proposals rejected at random: the fake RM fails on one that breaks a rule."""

    @initialize(rm=clusters({"node-locality-delay": "2"}), parts=any_parts())
    def start(self, rm: FakeRM, parts: dict[str, str]) -> None:
        self.rm = rm
        self.engine = Engine(replace(default_settings(), policy=settings_with(**parts).policy))
        self.now_ms = 0

    @rule(data=st.data(), reasons=st.lists(st.sampled_from(REJECTIONS), max_size=4), limit=st.integers(0, 20))
    def tick(self, data: st.DataObject, reasons: list[Fate], limit: int) -> None:
        self.now_ms += data.draw(st.sampled_from([10, 1000, 40_000]))
        self.engine.apply(self.rm.frame())
        assert none_assumed(self.engine)
        made = self.engine.decide(self.now_ms, limit, sequence=self.rm.sequence)
        assert len(made) <= limit
        self.rm.commit(made, lambda at: reasons[at] if at < len(reasons) else Fate.COMMITTED)

    @rule(
        data=st.data(),
        reasons=st.lists(st.sampled_from(REJECTIONS), max_size=4),
        answers=st.integers(1, 4),
        overtaken=st.booleans(),
    )
    def ahead(self, data: st.DataObject, reasons: list[Fate], answers: int, overtaken: bool) -> None:
        """The shim asks ahead: a frame is written before the last answer is committed, and its fates come later."""
        # the fake RM's limit does not grow with what is committed between a frame and its answer
        self.rm.user_limit.clear()
        waiting: list[tuple[int, Proposals]] = []
        for _ in range(answers):
            self.now_ms += 10
            self.engine.apply(self.rm.frame())
            assert assumed(self.engine) == sum(len(made) for _, made in waiting)
            made = self.engine.decide(self.now_ms, data.draw(st.integers(0, 20)), sequence=self.rm.sequence)
            if overtaken:
                self.overtake(data)
            if waiting:
                self.commit(waiting.pop(), reasons, overtaken)
            waiting.append((self.rm.sequence, made))
        self.commit(waiting.pop(), reasons, overtaken)
        self.engine.apply(self.rm.frame())
        assert none_assumed(self.engine)

    def overtake(self, data: st.DataObject) -> None:
        """Let something happen between a frame and the commits of the answer before it."""
        match data.draw(st.sampled_from(["complete", "ask", "node", "application"])):
            case "complete":
                self.complete(data)
            case "ask":
                self.ask(data)
            case "node":
                self.node(data, data.draw(st.sampled_from(list(NodeState))))
            case "application":
                self.application(data, data.draw(st.sampled_from(list(ApplicationState))))

    def commit(self, answer: tuple[int, Proposals], reasons: list[Fate], overtaken: bool) -> None:
        sequence, made = answer
        self.rm.commit(
            made, lambda at: reasons[at] if at < len(reasons) else Fate.COMMITTED, sequence, overtaken=overtaken
        )

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        for _ in range(min(len(self.rm.containers), 2)):
            self.rm.complete(data.draw(st.integers(0, len(self.rm.containers) - 1)))

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        app = data.draw(st.integers(0, len(self.rm.applications) - 1))
        if self.rm.applications[app].state != ApplicationState.GONE:
            draw_ask(data.draw, self.rm, app, data.draw(st.integers(0, 3)))

    @rule(data=st.data(), state=st.sampled_from(list(NodeState)))
    def node(self, data: st.DataObject, state: NodeState) -> None:
        node = self.rm.nodes[data.draw(st.integers(0, len(self.rm.nodes) - 1))]
        node.state = state

    @rule(data=st.data(), state=st.sampled_from(list(ApplicationState)))
    def application(self, data: st.DataObject, state: ApplicationState) -> None:
        at = data.draw(st.integers(0, len(self.rm.applications) - 1))
        app = self.rm.applications[at]
        if app.state != ApplicationState.GONE:
            app.state = state
            if state == ApplicationState.GONE:
                app.asks.clear()
            self.rm.change(at)

    @rule()
    def snapshot(self) -> None:
        self.rm.snapshot_next()

    @invariant()
    def held_nodes_are_few(self) -> None:
        if hasattr(self, "engine"):
            assert len(self.engine._policy.holds) <= EngineReservation().nodes_max


TestCourse = Course.TestCase
TestCourse.settings = settings(deadline=None, stateful_step_count=25)

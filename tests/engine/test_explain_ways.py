"""What would let an ask start: whose containers must end, which labels have room. No time is promised."""

from __future__ import annotations

from dataclasses import replace

from tests.engine.parts import settings_with
from tests.engine.test_explain import NODE, Planted

from treadle import events
from treadle.engine import Engine
from treadle.engine.invented_cluster import Texts, rows
from treadle.events import ContainerEvent
from treadle.explain.application import explain_application
from treadle.explain.causes import AskExplained, Explanation
from treadle.explain.situation import Situation


class Running(Planted):
    """A cluster drawn by a seed in which containers run."""

    def __init__(self, seed: int = 3) -> None:
        super().__init__(seed)
        self.events: list[events.Event] = []

    def run(self, application: int, node: int, *, began_ms: int = 1000, ended_ms: int | None = None) -> None:
        """Let a container of an application begin on a node, and end."""
        number = len(self.events) + 1
        for event, time_ms in ((ContainerEvent.LAUNCHED, began_ms), (ContainerEvent.COMPLETED, ended_ms)):
            if time_ms is not None:
                row = {"container": number, "application": application, "node": node, "priority": 1}
                row |= {"event": int(event), "time_ms": time_ms, "created_ms": began_ms, "am": 0, "exit_status": 0}
                self.events.append(rows(events.Containers, Texts(), [row | {"capability": (1024, 1)}]))

    def explanation(self) -> Explanation:
        """Let the engine decide at 100 s; explain the application."""
        engine = Engine(replace(settings_with(**self.parts), hold=self.hold))
        engine.apply(self.rm.frame())
        engine.apply(self.events)
        engine.decide(100_000, 16, sequence=self.rm.sequence)
        situation = Situation.of(engine)
        assert situation is not None
        return explain_application(situation.copied(), self.app)

    def asked(self) -> AskExplained:
        """Return what is said of the one ask."""
        (ask,) = self.explanation().asks
        return ask


def texts(ask: AskExplained) -> list[str]:
    return [way.text for way in ask.ways]


def two_leaves() -> tuple[Running, int, int]:
    """Return a cluster with two leaves at least, and an application of another user in each of two of them."""
    at = next(found for found in map(Running, range(100)) if len(found.leaves) > 1)
    mine = at.rm.applications[at.app].queue
    other = next(leaf for leaf in at.leaves if leaf != mine)
    return at, at.rm.application(mine, user="bob"), at.rm.application(other, user="bob")


def test_where_nodes_are_full_the_queues_whose_containers_run_there_are_named() -> None:
    at, same, other = two_leaves()
    at.fill((0, 0))
    at.ask()
    for node in (0, 1, 2):
        at.run(other, node)
    at.run(same, 0)
    paths = [f"q{at.rm.applications[app].queue}" for app in (other, same)]
    assert texts(at.asked()) == [
        f"containers of {paths[0]} end: 3 run on nodes that may serve it",
        f"containers of {paths[1]} end: 1 runs on nodes that may serve it",
    ]


def test_a_full_root_queue_is_full_nodes() -> None:
    at, _, other = two_leaves()
    at.fill((0, 0))
    whole = (NODE[0] * at.nodes, NODE[1] * at.nodes)
    at.rm.queues[0].maximum, at.rm.queues[0].used = whole, {"": whole}
    at.ask()
    at.run(other, 0)
    at.run(other, 1)
    path = f"q{at.rm.applications[other].queue}"
    assert texts(at.asked()) == [f"containers of {path} end: 2 run on nodes that may serve it"]


def test_where_a_queue_is_at_its_maximum_its_own_containers_are_named() -> None:
    at, same, other = two_leaves()
    leaf = at.rm.applications[at.app].queue
    at.rm.queues[leaf].maximum, at.rm.queues[leaf].used = (8192, 8), {"": (8192 - 512, 8)}
    at.ask()
    at.run(same, 0)
    at.run(other, 0)
    assert texts(at.asked()) == [f"containers of q{leaf} end: 1 runs"]


def test_where_a_user_is_at_the_limit_the_users_containers_are_named() -> None:
    at, same, _ = two_leaves()
    leaf = at.rm.applications[at.app].queue
    at.rm.user_limit["ann"] = (2048, 2)
    at.rm.user_used[leaf, "ann", ""] = (4096, 4)
    at.ask()
    at.run(at.app, 0)
    at.run(same, 0)
    assert texts(at.asked()) == [f"containers of user ann in q{leaf} end: 1 runs"]


def test_a_label_with_room_is_named_if_the_queue_may_use_it() -> None:
    at = Running()
    at.fill((0, 0))
    at.rm.node("spare", (16384, 16), partition="gpu")
    at.ask()
    ask = at.asked()
    assert [(way.kind, way.name) for way in ask.ways] == [("label", "gpu")]
    assert ask.ways[0].text == "with label gpu it would have room on 1 node now"


def test_what_is_never_served_is_not_let_start_by_containers_that_end() -> None:
    at, _, other = two_leaves()
    at.ask(capability=(NODE[0] + 1024, 1))
    at.run(other, 0)
    assert not at.asked().ways


def test_no_time_is_promised_though_it_is_known_how_long_containers_took() -> None:
    """A forecast of the wait was wrong by minutes; none is made."""
    at, same, other = two_leaves()
    at.fill((0, 0))
    at.ask()
    at.run(same, 0, began_ms=10_000, ended_ms=40_000)
    at.run(other, 1, began_ms=90_000)
    (ask,) = at.explanation().plain()["asks"]
    assert "wait" not in ask
    assert list(ask["ways"]) == [
        {
            "kind": "queue",
            "name": f"q{at.rm.applications[other].queue}",
            "text": f"containers of q{at.rm.applications[other].queue} end: 1 runs on nodes that may serve it",
        }
    ]

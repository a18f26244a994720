"""The wait that is estimated for an ask, against what a simulated cluster then does with it."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np
import pytest
from tests.engine.parts import settings_with
from tests.engine.test_explain import Planted, nodes_full, nodes_unusable, queue_maximum

from treadle import events
from treadle.config.settings import Hold
from treadle.dag.dag import Dag, Stage
from treadle.engine import Engine
from treadle.engine.invented_cluster import Texts, rows
from treadle.events import ApplicationState, ContainerEvent
from treadle.explain.application import explain_application
from treadle.explain.causes import AskExplained, Wait
from treadle.explain.kept_free import KeptFree
from treadle.explain.situation import Situation
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, Workload

POLICIES = [
    {"share": "capacity", "order": "fifo", "estimate": "hints"},
    {"share": "hdrf", "order": "srpt", "estimate": "hints"},
    {"share": "drf", "order": "fair", "estimate": "observed"},
]
SEEDS = range(100, 104)
LOOKS = 8
FROM_MS = 61_000
"""By then all jobs have come: an estimate is for the case that nobody else does."""


class Outcome(NamedTuple):
    """What was estimated of an ask, and how long it really waited."""

    wait: Wait
    took_ms: int


def jobs(draw: random.Random, leaves: list[str]) -> Workload:
    """Return jobs of one stage that differ in size, length and how even their tasks are."""
    noise = np.random.default_rng(draw.randrange(1 << 30))
    found = []
    for _ in range(draw.randint(6, 14)):
        mean_ms, variation, tasks = 1000 * draw.choice([10, 20, 40]), draw.choice([0.1, 0.3, 0.5]), draw.randint(5, 60)
        sigma = np.sqrt(np.log1p(variation**2))
        durations = np.maximum(noise.lognormal(np.log(mean_ms) - sigma**2 / 2, sigma, tasks), 1).astype(np.int64)
        demand = {"memory-mb": 1024 * draw.choice([1, 2, 4]), "vcores": 1}
        stage = Stage(0, tasks, int(durations.mean()), demand, durations_ms=durations)
        arrival_ms = 1000 * draw.choice([0, 0, 0, draw.randint(0, 60)])
        found.append((arrival_ms, stage, draw.choice(leaves), draw.choice(["ann", "bob"])))
    found.sort(key=lambda job: job[0])
    return Workload(
        ("memory-mb", "vcores"),
        tuple(
            Job(f"j{at}", arrival_ms, Dag(f"j{at}", (stage,)), Framework.MAPREDUCE, user=user, queue=leaf)
            for at, (arrival_ms, stage, leaf, user) in enumerate(found)
        ),
    )


def outcomes(seed: int, parts: dict[str, str]) -> list[Outcome]:
    """Run a cluster drawn by a seed; ask about applications that wait, and see when they get a first container."""
    draw = random.Random(seed)
    leaves = draw.choice([["a"], ["a", "b"], ["a", "b", "c", "d"]])
    nothing = {"stages": [{"tasks": 1, "duration_s": 1}]}
    scenario = Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": draw.randint(4, 12), "resources": {"memory-mb": 8192, "vcores": 8}}]},
            "queues": {leaf: {"capacity": 100 // len(leaves)} for leaf in leaves},
            "workload": {"jobs": [nothing]},
        }
    )
    simulation = Simulation(scenario, jobs(draw, leaves), settings_with(**parts), seed, check=False)
    waiting: dict[int, tuple[int, Wait]] = {}
    found: list[Outcome] = []

    def look() -> None:
        situation, now_ms = Situation.of(simulation.engine), simulation.rm.now_ms
        if situation is None or now_ms < FROM_MS:
            return
        apps = situation.view.apps
        idle = (apps["containers"] == 0) & (apps["assumed_count"] == 0)
        for app in [app for app in waiting if not idle[app] or apps["state"][app] != ApplicationState.ACTIVE]:
            began_ms, wait = waiting.pop(app)
            found.append(Outcome(wait, now_ms - began_ms))
        asking = np.flatnonzero((apps["state"] == ApplicationState.ACTIVE) & (apps["pending"] > 0) & idle).tolist()
        new = [app for app in asking if app not in waiting]
        if new and len(found) + len(waiting) < LOOKS and simulation.sequence % 5 == 0:
            app = draw.choice(new)
            waiting[app] = now_ms, explain_application(situation.copied(), app).asks[0].wait

    simulation.run(after_step=look)
    return found


@pytest.fixture(scope="module")
def seen() -> list[Outcome]:
    return [outcome for seed in SEEDS for parts in POLICIES for outcome in outcomes(seed, parts)]


def test_most_asks_start_within_the_interval(seen: list[Outcome]) -> None:
    known = [each for each in seen if not each.wait.not_known]
    assert len(known) >= 25
    assert len(known) >= 0.8 * len(seen)
    inside = [
        each
        for each in known
        if (each.wait.early_ms or 0) - 2000 <= each.took_ms
        and (each.wait.late_ms is None or each.took_ms <= each.wait.late_ms + 2000)
    ]
    assert len(inside) >= 0.8 * len(known), sorted(set(known) - set(inside), key=lambda each: each.took_ms)


def test_what_is_expected_is_neither_too_long_nor_too_short_and_grows_with_the_wait(seen: list[Outcome]) -> None:
    pairs = [(each.wait.expected_ms, each.took_ms) for each in seen if each.wait.expected_ms is not None]
    ratios = [(expected + 5000) / (took + 5000) for expected, took in pairs]
    assert 0.5 < median(ratios) < 1.5
    assert float(np.corrcoef(np.array(pairs, float).T)[0, 1]) > 0.6


def test_an_interval_says_something(seen: list[Outcome]) -> None:
    widths = [each.wait.late_ms - each.wait.early_ms for each in seen if each.wait.late_ms is not None]  # type: ignore[operator]
    assert median(widths) < 3 * median(each.took_ms for each in seen)
    assert len(widths) > len(seen) / 2


class Running(Planted):
    """A cluster whose nodes are full of containers of an application that is 1."""

    def __init__(self, seed: int = 3) -> None:
        super().__init__(seed)
        self.events: list[events.Event] = []

    def run(self, node: int, *, began_ms: int, number: int, ended_ms: int | None = None) -> None:
        """Let a container begin, and end."""
        for event, time_ms in ((ContainerEvent.LAUNCHED, began_ms), (ContainerEvent.COMPLETED, ended_ms)):
            if time_ms is not None:
                row = {"container": number, "application": 1, "node": node, "priority": 1, "event": int(event)}
                row |= {"time_ms": time_ms, "created_ms": began_ms, "am": 0, "exit_status": 0}
                self.events.append(rows(events.Containers, Texts(), [row | {"capability": (4096, 4)}]))

    def asked(self) -> AskExplained:
        """Let the engine decide at 100 s; explain the one ask."""
        engine = Engine(replace(settings_with(**self.parts), hold=self.hold))
        engine.apply(self.rm.frame())
        engine.apply(self.events)
        engine.decide(100_000, 16, sequence=self.rm.sequence)
        situation = Situation.of(engine)
        assert situation is not None
        (ask,) = explain_application(situation.copied(), self.app).asks
        return ask


def full_and_running(ends: bool) -> Running:
    at = Running()
    at.rm.application(at.leaves[0], user="bob", name="other")
    at.fill((0, 0))
    at.ask(capability=(4096, 4))
    for node in range(at.nodes):
        at.run(node, began_ms=90_000 - 1000 * node, number=10 + node)
    if ends:
        at.run(0, began_ms=10_000, number=1, ended_ms=40_000)
    return at


def test_where_nobody_knows_how_long_containers_run_it_says_so() -> None:
    ask = full_and_running(ends=False).asked()
    count = Running().nodes
    assert ask.wait.not_known == (
        f"nobody knows how long the {count} containers on the nodes that may serve it run: there is no hint, and none "
        "like them has ended"
    )
    assert ask.wait.expected_ms is None


def test_the_node_whose_containers_end_next_is_named() -> None:
    at = full_and_running(ends=True)
    ask = at.asked()
    assert not ask.wait.not_known
    assert ask.wait.early_ms is not None
    assert ask.wait.expected_ms is not None
    assert ask.wait.early_ms <= ask.wait.expected_ms <= 30_000
    nodes = [way for way in ask.ways if way.kind == "node"]
    oldest = [f"n{node}" for node in range(at.nodes - 1, at.nodes - 4, -1)]
    assert [way.name for way in nodes] == oldest, "those that have run for longest end first"
    assert [way.name for way in ask.ways if way.kind == "queue"] == [f"q{at.leaves[0]}"]


def test_a_label_with_room_is_named_if_the_queue_may_use_it() -> None:
    at = Running()
    at.fill((0, 0))
    at.rm.node("spare", (16384, 16), partition="gpu")
    at.ask()
    ask = at.asked()
    assert [(way.kind, way.name) for way in ask.ways] == [("label", "gpu")]
    assert ask.ways[0].text == "with label gpu it would have room on 1 node now"


@pytest.mark.parametrize("plant", [nodes_unusable, nodes_full, queue_maximum], ids=lambda plant: plant.__name__)
def test_without_containers_that_end_no_wait_is_made_up(plant: object) -> None:
    at = Running()
    plant(at)  # type: ignore[operator]
    ask = at.asked()
    assert ask.wait.not_known
    assert (ask.wait.early_ms, ask.wait.expected_ms, ask.wait.late_ms) == (None, None, None)


def test_what_is_never_served_has_no_wait() -> None:
    at = Running()
    at.ask(capability=(1 << 20, 1))
    assert at.asked().wait.not_known == "it does not start unless somebody changes something"


def kept_free(headroom: bool) -> AskExplained:
    """Every node is full of four containers, of which the oldest ends soon; somebody else wants a whole node."""
    at = Running()
    at.hold = Hold(nodes_max=0, headroom=headroom)
    at.rm.application(at.leaves[0], user="bob", name="other")
    at.rm.ask(at.rm.application(at.leaves[0], user="cid", name="large"), 0, 1, (16384, 16))
    at.fill((0, 0))
    at.ask(capability=(4096, 4))
    for node in range(at.nodes):
        for number in range(4):
            at.run(node, began_ms=100_000 - 9_000 * number, number=10 + 4 * node + number)
    at.run(0, began_ms=10_000, number=1, ended_ms=40_000)
    return at.asked()


def test_a_wait_for_the_room_that_the_largest_ask_needs_is_longer() -> None:
    """Without headroom one container must end, the oldest; with it all of a node, the youngest among them."""
    first, all_of_a_node = kept_free(headroom=False), kept_free(headroom=True)
    for ask in (first, all_of_a_node):
        assert not ask.wait.not_known
    assert first.wait.expected_ms is not None
    assert all_of_a_node.wait.expected_ms is not None
    assert all_of_a_node.wait.expected_ms > 2 * first.wait.expected_ms
    one, four = (next(way.in_ms for way in ask.ways if way.kind == "node") for ask in (first, all_of_a_node))
    assert one is not None
    assert four is not None
    assert four > 2 * one


def test_what_is_kept_free_falls_when_the_largest_ask_was_served() -> None:
    kept = KeptFree({0: (16, 16), 1: (4, 4)}, [(1, 1), (8, 8), (8, 8)], [(1, 2)])
    assert kept.allows(1, (1, 1), (2, 2)), "the small node could not hold the large ask"
    for _ in range(2):
        assert not kept.allows(0, (1, 1), (4, 4))
        kept.served((8, 8))
    assert kept.allows(0, (1, 1), (4, 4))
    assert not kept.allows(0, (1, 1), (1, 1)), "somebody who is not followed wants two of the second resource"
    assert kept.allows(0, (1, 0), (1, 1)), "of a resource that it does not need it takes nothing"

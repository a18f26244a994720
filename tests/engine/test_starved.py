"""Queues that stay below what they are entitled to: reported after two minutes, whoever places."""

from __future__ import annotations

import pytest
from tests.engine.fake_rm import FakeRM
from tests.engine.sleepers import sharing

from treadle.config.settings import Settings, default_settings
from treadle.engine import Engine

PLENTY = 100_000


class Research:
    """A full cluster: research (30 %) holds half of the GPUs by one child, and the other child asks for vcores."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.rm = engine, FakeRM(counted=(1, 1, 1))
        self.rm.node("n0", (100, 40, 8))
        root = self.rm.queue(-1, (100, 40, 8))
        prod = self.rm.queue(root, (70, 28, 5))
        research = self.rm.queue(root, (30, 12, 2))
        gpu, nlp = (self.rm.queue(research, (15, 6, 1)) for _ in range(2))
        self.jobs = [self.rm.application(queue) for queue in (prod, gpu, nlp)]
        self.rm.ask(self.jobs[0], 0, 1000, (1, 1, 0))
        self.rm.ask(self.jobs[1], 0, 1, (1, 1, 4))
        self.rm._commit(self.jobs[1], 0, 0)
        self.run(0, 38)
        self.rm.ask(self.jobs[2], 0, 10, (1, 1, 0))

    def run(self, job: int, tasks: int) -> None:
        for _ in range(tasks):
            self.rm._commit(self.jobs[job], 0, 0)

    def after(self, seconds: int, *, enforce: bool = False) -> list[str]:
        """Let the engine observe, or decide but place nothing; return what it says of starved queues."""
        self.engine.apply(self.rm.frame())
        self.engine.decide(1000 * seconds, 0, sequence=self.rm.sequence, assume=enforce)
        return list(self.engine.starved())


@pytest.mark.parametrize("share", ["capacity", "hdrf", "drf", "none", "deficit"])
def test_a_starved_queue_is_named_with_its_cause_after_two_minutes(share: str) -> None:
    settings = default_settings() if share == "capacity" else sharing(share)
    cluster = Research(Engine(settings))
    assert [cluster.after(seconds) for seconds in (0, 60, 119)] == [[], [], []]
    (line,) = cluster.after(130)
    assert line.startswith("starved: queue q4 has 0.0% of the ")
    assert "q2 counts as 50% of 30% because of its cpu, which it does not ask for" in line
    assert cluster.after(200) == [line]
    cluster.run(2, 1)
    assert cluster.after(210) == [line]  # still short, and the line stays as it was


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        (default_settings(), "q2 counts as 50% of 30% because of its cpu"),
        (sharing("hdrf", **{"as": "paper"}), "q2 counts as 50% of 30% because of its cpu"),
        (sharing("hdrf"), "q1 has 95%, and is guaranteed 70%"),
        (sharing("none"), "q1 has 95%, and is guaranteed 70%"),
    ],
)
def test_the_cause_is_one_of_the_policy_that_places(settings: Settings, cause: str) -> None:
    cluster = Research(Engine(settings))
    cluster.after(0, enforce=True)
    (line,) = cluster.after(130, enforce=True)
    assert f": {cause}" in line


def test_what_only_preemption_gives_is_said_with_it() -> None:
    cluster = Research(Engine(default_settings()))
    cluster.after(0)
    (line,) = cluster.after(130)
    assert line.endswith("nodes have room for it now")
    full = Research(Engine(default_settings()))
    full.run(0, 1)
    full.after(0)
    (line,) = full.after(130)
    assert line.endswith("no node has room now, and until containers end only preemption could give it more")


def test_a_queue_that_gets_its_part_is_not_starved_any_more() -> None:
    cluster = Research(Engine(default_settings()))
    cluster.after(0)
    assert cluster.after(130)
    for _ in range(6):
        cluster.rm.complete(len(cluster.rm.containers) - 1)
    cluster.run(2, 5)
    assert cluster.after(140) == []
    assert cluster.after(300) == []


def test_a_queue_whose_asks_cannot_be_placed_is_not_starved() -> None:
    """Its asks are larger than any node, or its user is at a limit."""
    large = Research(Engine(default_settings()))
    large.rm.ask(large.jobs[2], 0, 10, (1, 41, 0))
    large.after(0)
    assert large.after(130) == []
    limited = Research(Engine(default_settings()))
    limited.rm.user_limit["u"] = (0, 0, 0)
    limited.after(0)
    assert limited.after(130) == []


def test_a_queue_with_less_than_a_container_to_its_entitlement_is_not_starved() -> None:
    cluster = Research(Engine(default_settings()))
    cluster.rm.ask(cluster.jobs[2], 0, 10, (1, 7, 0))
    cluster.after(0)
    assert cluster.after(130) == []


def test_a_given_tree_says_what_queues_are_entitled_to() -> None:
    tree = {"a": {"weight": 99, "queue": "q1"}, "b": {"queue": "q3"}, "c": {"queue": "q4"}}
    cluster = Research(Engine(sharing("hdrf", tree=tree)))
    cluster.after(0)
    assert cluster.after(130) == []  # of 1 % no whole container is missing

"""What the engine proposes on small clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.engine.fake_rm import FakeRM, assumed

from treadle.config.reader import parse_settings
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.engine.invented_cluster import small_cluster


def test_two_equal_queues_get_half_each() -> None:
    engine = Engine(default_settings())
    engine.apply(small_cluster(nodes=2, leaves=2, applications=2))  # 16 slots; each application asks for 8
    proposals = engine.decide(1000, 8, sequence=1)
    assert sorted(proposals.application.tolist()) == [0] * 4 + [1] * 4


def test_nothing_is_proposed_twice() -> None:
    engine = Engine(default_settings())
    engine.apply(small_cluster(nodes=8, leaves=2, applications=4))
    assert len(engine.decide(1000, 1000, sequence=1)) == 32
    assert len(engine.decide(1010, 1000, sequence=2)) == 0
    assert assumed(engine) == 32


def test_observed_proposals_are_not_assumed() -> None:
    engine = Engine(default_settings())
    engine.apply(small_cluster())
    first = engine.decide(1000, 1000, sequence=1, assume=False)
    assert assumed(engine) == 0
    again = engine.decide(1010, 1000, sequence=2, assume=False)
    assert np.array_equal(first.application, again.application)


def test_warming_up_schedules_an_invented_cluster_and_leaves_the_engine_alone() -> None:
    engine = Engine(default_settings())
    assert engine.warm_up() > 32
    assert assumed(engine) == 0
    engine.apply(small_cluster())
    assert len(engine.decide(1000, 1000, sequence=1)) == 32


class WholePaths(FakeRM):
    """Calls queues by their paths, as the ResourceManager does."""

    def _queue_row(self, at: int) -> dict[str, Any]:
        return super()._queue_row(at) | {"path_name": f"root.q{at}" if at else "root"}


def test_a_selector_that_names_no_queue_is_a_warning_until_the_queue_is_there() -> None:
    text = "engines: {{a: {{select: {{queues: [{}]}}}}, b: {{}}}}"
    lost, there = (parse_settings("t.yaml", text.format(queue)) for queue in ("root.q9", "root.q1"))
    rm = WholePaths()
    root = rm.queue(-1, (8, 8))
    rm.queue(root, (8, 8))
    engine = Engine(default_settings())
    engine.configure(lost)
    engine.apply(rm.frame())
    assert engine.warnings() == ("engines.a.select.queues: root.q9 is no queue of the cluster; did you mean root.q1?",)
    engine.configure(there)
    assert engine.warnings() == ()
    engine.configure(lost)
    for _ in range(8):
        rm.queue(root, (8, 8))
    rm.snapshot_next()
    engine.apply(rm.frame())
    assert engine.warnings() == ()

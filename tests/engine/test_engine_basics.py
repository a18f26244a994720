"""What the engine proposes on small clusters."""

from __future__ import annotations

import numpy as np
from tests.engine.fake_rm import assumed

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

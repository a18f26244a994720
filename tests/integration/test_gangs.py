"""Gangs of two real engines, by the entry and by a tag: all or nothing, while application masters withdraw asks."""

from __future__ import annotations

import pytest
from tests.support.accounts import wait_idle
from tests.support.gangs import Gangs, gang_cluster, wait_engines
from tests.support.masters import Masters

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GANGS = 300
"""To be had in each way."""


def test_no_gang_is_had_in_part(tmp_path_factory: pytest.TempPathFactory) -> None:
    with gang_cluster(tmp_path_factory.mktemp("gangs")) as cluster, Masters(cluster) as masters:
        wait_engines(cluster)
        gangs = Gangs(masters, seed=1)
        gangs.start()

        def had_enough() -> bool:
            # those that were refused as a whole are the ones in which a part could have been had
            refused = cluster.rm.treadle()["RejectedTransaction"]
            had = min(gangs.counts[way] for way in ("by_engine", "by_tag"))
            return bool(gangs.mistakes) or (refused and had >= GANGS)

        try:
            cluster.wait_for(f"{GANGS} gangs in each way", had_enough, 900)
        finally:
            gangs.stop()
        assert gangs.mistakes == []
        assert gangs.counts["withdrawn"] > 0
        assert gangs.counts["singles"] > 0
        wait_idle(cluster)
        total = cluster.rm.treadle()
        assert total["RejectedInternalError"] == 0
        assert (total["PlacedByCapacityScheduler"], total["CaughtExceptions"]) == (0, 0)
        assert total["Committed"] >= 5 * gangs.counts["gangs"] + gangs.counts["singles"]

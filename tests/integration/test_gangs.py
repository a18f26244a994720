"""Gangs of two real engines, by the entry and by a tag: all or nothing, while application masters withdraw asks."""

from __future__ import annotations

import pytest
from tests.support.accounts import wait_idle
from tests.support.engines import bean_of
from tests.support.gangs import REST, WHOLE, Gangs, gang_cluster, wait_engines
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
            refused = all(bean_of(cluster, name)["RejectedTransaction"] for name in (WHOLE, REST))
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
        beans = [bean_of(cluster, name) for name in (WHOLE, REST)]
        assert [bean["RejectedInternalError"] for bean in beans] == [0, 0]
        total = cluster.rm.treadle()
        assert (total["PlacedNatively"], total["Escapes"]) == (0, 0)
        assert total["Committed"] >= 5 * gangs.counts["gangs"] + gangs.counts["singles"]

"""Two engines of which none lives, or shows life: the stock scheduler places, until they are back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from tests.support.accounts import wait_adds_up
from tests.support.clusters import LEASE_MS, engines_cluster
from tests.support.engines import process_of
from tests.support.jobs import shell_job

from treadle_lab.demo.run import roster_of
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ENGINES = ("long", "rest")
TREADLE_YAML = "engines: {long: {select: {queues: [root.batch]}}, rest: {}}\n"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    folder = tmp_path_factory.mktemp("no-engine")
    lease = {"yarn.scheduler.treadle.lease-ms": str(LEASE_MS)}
    with engines_cluster(folder, ClusterSettings(nodes=1, memory_mb=4096, overrides=lease), TREADLE_YAML) as cluster:
        yield cluster


def alive(cluster: MiniCluster) -> list[str]:
    return [name for name, each in roster_of(cluster).get("engines", {}).items() if each["alive"]]


@pytest.mark.parametrize("act", ["kill", "suspend"])
def test_what_no_engine_serves_is_placed_by_capacity_scheduler_until_they_are_back(two: MiniCluster, act: str) -> None:
    two.wait_for("both engines", lambda: len(alive(two)) == 2 and two.rm.treadle()["LeaseHeld"] == 1, 240)
    # more containers than there is room for at once: some of them are asked for after the lease has run out
    job = shell_job(two, f"unserved-{act}", containers=40, container_ms=2000, memory_mb=512)
    job.wait_containers(3)

    def harm() -> bool:
        for engine in ENGINES:
            process = process_of(two, engine)
            if process is not None:
                with suppress(psutil.NoSuchProcess):
                    getattr(process, act)()
        return two.rm.placements()[job.application_id]["native"] > 0

    two.wait_for("a native placement", harm, 120)
    for process in filter(None, [process_of(two, engine) for engine in ENGINES]):
        with suppress(psutil.NoSuchProcess):
            process.resume()
    assert job.wait() == "SUCCEEDED"
    # an administrator's refresh ends the pause that they have earned
    two.admin("-refreshQueues")
    two.wait_for("both engines", lambda: len(alive(two)) == 2 and two.rm.treadle()["LeaseHeld"] == 1, 240)
    wait_adds_up(two)

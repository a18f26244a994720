"""Two engines, each a process of its own, place at the same time on one cluster; one is killed and comes back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pytest
from tests.support.accounts import wait_adds_up
from tests.support.clusters import engines_cluster
from tests.support.engines import figures_of, process_of
from tests.support.jobs import sleep_job
from tests.support.optional import present

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TREADLE_YAML = """
engines:
  long:
    select: {queues: [root.batch]}
    policy: {order: {kind: srpt}}
    fallback: rest
  rest:
    policy: {order: {kind: fifo}}
    fallback: long
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    folder = tmp_path_factory.mktemp("two-engines")
    with engines_cluster(folder, ClusterSettings(nodes=1, memory_mb=8192), TREADLE_YAML) as cluster:
        yield cluster


def shown(cluster: MiniCluster, *arguments: str) -> Any:
    """Return what `treadle engines` says."""
    command = [sys.executable, "-m", "treadle", "engines", "--rm", cluster.rm.url, "--output=json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def served_by(cluster: MiniCluster, name: str) -> str:
    return str(next((row["served_by"] for row in shown(cluster)["engines"] if row["engine"] == name), ""))


def test_each_engine_serves_its_own_and_the_other_one_while_that_is_dead(two: MiniCluster) -> None:
    two.wait_for("both engines to serve their own", lambda: served_by(two, "rest") == "rest", 300)
    assert served_by(two, "long") == "long"
    assert "order=srpt" in figures_of(two, "long")["policy"]
    assert "order=fifo" in figures_of(two, "rest")["policy"]

    before = {name: figures_of(two, name)["committed"] for name in ("long", "rest")}
    jobs = {
        "long": sleep_job(two, "long-one", maps=3, queue="batch"),
        "rest": sleep_job(two, "short-one", maps=3),
    }
    for name, job in jobs.items():
        assert shown(two, "--app", job.application_id)["owner"] == name
        job.ends_placed_by_treadle()
    wanted = {name: before[name] + job.containers() for name, job in jobs.items()}
    two.wait_for("all to be counted", lambda: {name: figures_of(two, name)["committed"] for name in jobs} == wanted)

    killed = present(process_of(two, "rest"))
    killed.send_signal(signal.SIGKILL)
    two.wait_for("the other engine to serve all", lambda: served_by(two, "rest") == "long", 120)
    job = sleep_job(two, "orphan", maps=2)
    assert shown(two, "--app", job.application_id)["home"] == "rest"
    assert job.wait() == "SUCCEEDED"
    two.wait_for("its own to be served again", lambda: served_by(two, "rest") == "rest", 300)
    bean = two.rm.treadle()
    assert (bean["PlacedByCapacityScheduler"], bean["CaughtExceptions"]) == (0, 0)
    assert figures_of(two, "long")["starts"] == 1
    assert figures_of(two, "rest")["starts"] == 2


def test_of_an_engine_that_hangs_another_serves_the_jobs(two: MiniCluster) -> None:
    two.wait_for("both engines to serve their own", lambda: served_by(two, "rest") == "rest", 300)
    starts = figures_of(two, "long")["starts"]
    hung = present(process_of(two, "rest"))
    hung.suspend()
    try:
        two.wait_for("the other engine to serve all", lambda: served_by(two, "rest") == "long", 180)
        job = sleep_job(two, "hung", maps=2)
        assert shown(two, "--app", job.application_id)["home"] == "rest"
        job.ends_placed_by_treadle()
    finally:
        # the hub may have ended it
        with suppress(psutil.NoSuchProcess):
            hung.resume()
    two.wait_for("its own to be served again", lambda: served_by(two, "rest") == "rest", 300)
    assert figures_of(two, "long")["starts"] == starts
    wait_adds_up(two)


@contextmanager
def dead(cluster: MiniCluster) -> Iterator[None]:
    """Kill the first engine's process as often as it comes."""
    over = threading.Event()

    def kill() -> None:
        while not over.is_set():
            process = process_of(cluster, "long")
            if process is not None:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            over.wait(0.2)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_the_first_engine_may_be_dead_for_good(two: MiniCluster) -> None:
    two.wait_for("both engines to serve their own", lambda: served_by(two, "long") == "long", 300)
    starts = figures_of(two, "rest")["starts"]
    with dead(two):
        two.wait_for("the other engine to serve all", lambda: served_by(two, "long") == "rest", 120)
        for name in ("orphan-1", "orphan-2"):
            job = sleep_job(two, name, maps=3, queue="batch")
            assert shown(two, "--app", job.application_id)["home"] == "long"
            job.ends_placed_by_treadle()
        assert served_by(two, "long") == "rest"
    # an administrator's refresh ends the pause that it has earned
    two.admin("-refreshQueues")
    two.wait_for("its own to be served again", lambda: served_by(two, "long") == "long", 300)
    assert figures_of(two, "rest")["starts"] == starts
    assert two.rm.treadle()["PlacedByCapacityScheduler"] == 0
    wait_adds_up(two)

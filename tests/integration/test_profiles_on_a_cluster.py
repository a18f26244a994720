"""The jobs of a real cluster are remembered while they are scheduled."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from tests.support.clusters import faulty_cluster
from tests.support.jobs import sleep_job

from treadle.profiles.importers.importing import Import
from treadle.profiles.importers.sources import find_sources
from treadle.profiles.profile import JobProfile
from treadle.profiles.store import open_store

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_the_second_run_of_a_job_finds_the_first(tmp_path: Path) -> None:
    file, policy = tmp_path / "profiles.db", tmp_path / "treadle.yaml"
    policy.write_text(f"profiles:\n  store: {file}\n")

    def known() -> list[JobProfile]:
        with open_store(str(file), read_only=True) as store:
            return store.profiles()

    def seen(runs: int) -> bool:
        return [job.runs for job in known()] == [runs]

    with faulty_cluster(tmp_path / "of-jobs", policy=policy) as cluster:
        for runs in (1, 2):
            assert sleep_job(cluster, "nightly", maps=5, map_ms=300).wait() == "SUCCEEDED"
            # a job is taken for finished some seconds after its last sign of life
            cluster.wait_for(f"{runs} runs", partial(seen, runs), 60)
        (live,) = known()
        maps, reduces = live.stages
        assert (maps.name, maps.width, maps.durations.count) == ("map", 5, 10)
        assert (reduces.name, reduces.width, reduces.durations.count) == ("reduce", 1, 2)
        assert maps.demand["memory-mb"] == 256
        with open_store(str(file)) as store:
            importing = Import(store, int(time.time() * 1000), print)
            importing.take(find_sources([cluster.folder / "staging"]))
        # the job history tells of the same runs, by another road
        assert (importing.summary.known, importing.summary.runs, importing.summary.broken) == (2, 0, [])

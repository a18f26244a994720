"""The gate `parallelism` on a real cluster: how many tasks of a job run at once, and how good the predicted end is.

Caps are counted and must hold to one container. How far the prediction is off is a time: printed (`pytest -s`), not
judged.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from tests.support.clusters import engines_cluster
from tests.support.engines import served_by
from tests.support.jobs import Job, sleep_job
from tests.support.telling_sidecar import told, write_command

from treadle.history.store import open_store
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

SLOTS = 10
SLOT_MB = 512
BASE = 3
CAPPED = 6
"""60 % of the slots, the application master's among them."""

ROSTER = """
engines:
  narrow:
    select: {{types: [MAPREDUCE], queues: [root.batch]}}
    policy: {{gate: {{kind: parallelism, mode: as_requested, workers: {base}}}}}
  wide:
    select: {{types: [MAPREDUCE]}}
    policy: {{gate: {{kind: parallelism, mode: global_cap, workers: 2}}}}
  rest: {{}}
history: {{store: {store}}}
"""
NARROW, WIDE = "batch", "default"
"""The queues of the two gates."""

TASK_MS = 8_000
"""Of another engine, beside a MapReduce job."""
MEMORY = {
    "mapreduce.map.memory.mb": str(SLOT_MB),
    "mapreduce.reduce.memory.mb": str(SLOT_MB),
    "yarn.app.mapreduce.am.resource.mb": str(SLOT_MB),
    # all maps, then all reduces, as the model has it
    "mapreduce.job.reduce.slowstart.completedmaps": "1.0",
}
_STEP = re.compile(r"^(\S+ \d+:\d+:\d+,\d+) .*AM (Allocated|Released) Container.*APPID=(\S+).*CONTAINERID=(\S+)")


@dataclass
class Bench:
    cluster: MiniCluster
    said: Path
    """What the gates said."""
    store: Path
    """What the first engine remembers of jobs."""

    def map_reduce(self, name: str, queue: str, maps: int, reduces: int) -> Job:
        return sleep_job(
            self.cluster,
            name,
            maps=maps,
            reduces=reduces,
            map_ms=TASK_MS,
            reduce_ms=TASK_MS,
            queue=queue,
            settings=MEMORY,
        )

    def steps(self, application_id: str) -> list[tuple[float, int]]:
        """When a container of an application that is no master was allocated (1) or released (-1), seconds."""
        found = []
        for line in self.cluster.layout.audit_log.read_text("utf-8", "replace").splitlines():
            if (match := _STEP.search(line)) and match[3] == application_id and not match[4].endswith("_000001"):
                at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
                found.append((at, 1 if match[2] == "Allocated" else -1))
        return found

    def most_at_once(self, application_id: str) -> int:
        running = most = 0
        for _, step in self.steps(application_id):
            running += step
            most = max(most, running)
        return most

    def prediction(self, job: Job, maps: int) -> tuple[float, float]:
        """What was predicted when a wave began with this many maps left, and what it was, seconds."""
        said = told(self.said, job.application_id)
        first = next(each for each in said if (each["running"], each["maps"]) == (BASE, maps))
        ended_s = max(at for at, step in self.steps(job.application_id) if step < 0)
        return float(first["left_s"]), ended_s - first["now_ms"] / 1000


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("specialist")
    said, store = folder / "said", folder / "profiles.db"
    overrides = {"yarn.scheduler.treadle.python.command": str(write_command(folder / "telling", said))}
    settings = ClusterSettings(nodes=1, memory_mb=SLOTS * SLOT_MB, vcores=64, overrides=overrides)
    with engines_cluster(folder, settings, ROSTER.format(base=BASE, store=store)) as cluster:
        mine = {name: name for name in ("narrow", "wide", "rest")}
        cluster.wait_for("three engines", lambda: served_by(cluster) == mine, 300)
        yield Bench(cluster, said, store)


def test_a_job_has_its_base_width_to_one_container_and_its_end_is_predicted(bench: Bench) -> None:
    for number, known in ((1, "nothing before"), (2, "one run before")):
        job = bench.map_reduce(f"narrow{number}", NARROW, maps=3 * BASE, reduces=BASE)
        assert job.wait() == "SUCCEEDED"
        assert bench.most_at_once(job.application_id) == BASE
        for maps in (3 * BASE, 2 * BASE):
            predicted_s, measured_s = bench.prediction(job, maps)
            share = f"{predicted_s / measured_s:.2f} of it"
            say(f"{known}, {maps} maps left: predicted {predicted_s:.1f} s, measured {measured_s:.1f} s, {share}")
        if number == 2:
            (first, *_) = (each for each in told(bench.said, job.application_id) if each["running"] == BASE)
            assert first["reduces"] == BASE, "the profile knows of them before they are asked for"
        # the end of its last container is the last thing that teaches the profile
        bench.cluster.wait_for("the profile of the run", partial(_remembered, bench, number), 120)


def _remembered(bench: Bench, runs: int) -> bool:
    """Say whether the engine of narrow jobs remembers this many runs."""
    with open_store(str(bench.store), read_only=True) as store:
        return any(profile.runs >= runs for profile in store.profiles())


def test_idle_room_is_used_up_to_the_cap_to_one_container(bench: Bench) -> None:
    job = bench.map_reduce("wide", WIDE, maps=3 * CAPPED, reduces=0)
    assert job.wait() == "SUCCEEDED"
    assert bench.most_at_once(job.application_id) == CAPPED - 1, "beside its master"


def say(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")

"""SLearn on a real cluster: durations are learned from jobs, used for their next runs, and survive the sidecar."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.accounts import wait_settled
from tests.support.clusters import FaultyCluster, faulty_cluster
from tests.support.files import written
from tests.support.map_reduce_jobs import MapReduceJobs, SleepJob, WordCount, master_logs
from tests.support.optional import present
from tests.support.words import skewed_sizes, write_words

from treadle.cli.main import run as treadle
from treadle.history.store import Sample, open_store
from treadle.policy.slearn.table import Sampling
from treadle_lab.demo.run import read_counts

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

POLICY = """
policy:
  gate: {{kind: pilots, ratio: fixed, ratio_fraction: 0.5, work_conserving: false, tez: true}}
  order: {{kind: mlfq, size: estimated_total}}
  estimate: {{kind: combined}}
history:
  store: {store}
record:
  folder: {recording}
  segment_minutes: 1
"""
LETTERS = iter("abcdef")
KNOWN = re.compile("[12] of [12] jobs by earlier runs")
"""What the status says of jobs that run. Of two one may have ended before the other's master asks for its first map."""
TEZ_SLEEP = "org.apache.tez.mapreduce.examples.MRRSleepJob"
PREEMPTED = re.compile("Preempting attempt_[0-9_a-z]+")


class Learning:
    """A cluster under slearn with a store, and a client."""

    def __init__(self, cluster: FaultyCluster, jobs: MapReduceJobs, store: Path) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.store = store
        self.submitted: list[str] = []

    def submit(self, job: SleepJob | WordCount) -> str:
        self.submitted.append(self.jobs.submit(job))
        return self.submitted[-1]

    def wait(self, application_id: str) -> str:
        def ended() -> str:
            status = str(self.cluster.rm.application(application_id)["finalStatus"])
            return "" if status == "UNDEFINED" else status

        return str(self.cluster.wait_for(f"end of {application_id}", ended, 240))

    def sample(self, application_id: str) -> Sample | None:
        with open_store(str(self.store), read_only=True) as store:
            return store.samples().get(application_id)


@pytest.fixture(scope="module")
def learning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learning]:
    folder = tmp_path_factory.mktemp("learning")
    store = folder / "profiles.db"
    policy = written(folder / "treadle.yaml", POLICY.format(store=store, recording=folder / "recording"))
    with faulty_cluster(folder / "faulty", policy=policy, memory_mb=2048) as cluster, MapReduceJobs(cluster) as jobs:
        yield Learning(cluster, jobs, store)


def show(learning: Learning, capsys: pytest.CaptureFixture[str], user: str, name: str) -> dict[str, list[list[int]]]:
    """Return the recent runs of the stages of the nightly job of a user, by `treadle history show`."""
    arguments = ["history", "show", name, "--store", str(learning.store), "--user", user, "--output=json"]
    capsys.readouterr()
    if treadle(arguments) != 0:
        return {}
    (found,) = json.loads(capsys.readouterr().out)
    return {stage["name"]: stage["recent"] for stage in found["stages"]}


def wait_runs(learning: Learning, capsys: pytest.CaptureFixture[str], user: str, name: str, runs: int) -> None:
    """Wait until this many runs of a user's nightly job are remembered."""

    def remembered() -> bool:
        return len(show(learning, capsys, user, name).get("map", ())) == runs

    learning.cluster.wait_for(f"run {runs} of {user}", remembered)


def assert_no_reduce_preempted(learning: Learning) -> None:
    """No application master's log says that it killed reduces to make room for maps."""
    for job in learning.submitted:
        logs = master_logs(learning.cluster, job)
        assert logs, f"{job} has a master's log"
        for log in logs:
            text = log.read_text(errors="replace")
            assert "RMContainerAllocator" in text
            assert not PREEMPTED.search(text), f"{log}: {PREEMPTED.search(text)}"


def test_the_second_run_of_two_users_jobs_gets_estimates_from_the_first(
    learning: Learning, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = learning.cluster
    users = ("ann", "bob")
    name = f"nightly load {next(LETTERS)}"  # not known to a test that is run again
    for number in (1, 2):
        jobs = [learning.submit(SleepJob(f"{name} 2026-11-2{number}", user, 5, 500, 1, 200)) for user in users]
        if number == 2:
            cluster.wait_for("jobs to be known", lambda: KNOWN.match(cluster.rm.treadle()["Learned"]), 120)
        assert [learning.wait(job) for job in jobs] == ["SUCCEEDED"] * 2
        for user in users:
            wait_runs(learning, capsys, user, name, number)
    for user in users:
        (first, second) = show(learning, capsys, user, name)["map"]
        assert (first[2], first[5]) == (5, -1), "five maps, of which nothing had been known"
        assert second[5] == first[3] > 500, "the second got the mean of the first"
        assert treadle(["history", "show", name, "--store", str(learning.store), "--user", user]) == 0
        assert "hint for last" in capsys.readouterr().out
    wait_settled(cluster)
    assert_no_reduce_preempted(learning)


def test_a_sidecar_killed_while_pilots_run_loses_neither_samples_nor_jobs(learning: Learning) -> None:
    cluster = learning.cluster
    # six of twelve are pilots, and there is room for three beside the AM
    job = learning.submit(SleepJob("sampled", "ann", 12, 3_000, 1, 200, settings={"mapreduce.map.memory.mb": "1024"}))
    cluster.wait_for("pilots that have ended", lambda: (found := learning.sample(job)) and found.ended >= 1, 120)
    before = present(learning.sample(job))
    assert (before.sampling, before.width, before.pilots) == (Sampling.RUNS_PILOTS, 12, 6)
    first = cluster.sidecar_pid()

    os.kill(first, signal.SIGKILL)

    def opened() -> Sample | None:
        found = learning.sample(job)
        return found if found is not None and found.sampling == Sampling.OPEN else None

    after = cluster.wait_for("the open gate", opened, 180)
    assert cluster.sidecar_pid() != first
    assert (after.width, after.pilots) == (12, 6), "as many as before, though fewer maps are left"
    assert after.ended >= after.pilots, "those that had ended before count"
    assert after.since_ms == before.since_ms
    assert after.mean_ms > 3_000, "it sleeps so long, and its JVM starts"
    assert learning.wait(job) == "SUCCEEDED"
    wait_settled(cluster)
    assert_no_reduce_preempted(learning)


def test_words_of_files_of_unequal_sizes_are_counted_and_pilots_take_their_sizes_into_account(
    learning: Learning, tmp_path: Path
) -> None:
    words, counted = tmp_path / "words", tmp_path / "counted"
    sizes = skewed_sizes(8, 16 << 20, 3)
    written = write_words(words, sizes, 3)
    job = learning.submit(WordCount(f"word count {next(LETTERS)}", "bob", words, counted, 1))

    def sampled() -> Sample | None:
        found = learning.sample(job)
        return found if found is not None and found.pilots > 0 else None

    found = learning.cluster.wait_for("pilots", sampled, 120)
    assert (found.width, found.pilots) == (8, 4), "a map a file"
    assert learning.wait(job) == "SUCCEEDED"
    assert sum(read_counts(counted).values()) == written
    wait_settled(learning.cluster)
    assert_no_reduce_preempted(learning)


def test_tez_is_sampled_where_it_does_not_reuse_containers(learning: Learning) -> None:
    cluster = learning.cluster
    wanted = {"tez.am.container.reuse.enabled": "false", "tez.application.tags": "sampled-tez"}
    options = [f"-D{key}={value}" for key, value in wanted.items()]
    sizes = ["-m", "8", "-r", "1", "-mt", "3000", "-rt", "100"]
    client = cluster.submit(cluster.java(TEZ_SLEEP, *options, *sizes), cluster.layout.logs / "client-tez.log")

    def known() -> str:
        return next((str(app["id"]) for app in cluster.rm.applications(applicationTags="sampled-tez")), "")

    job = str(cluster.wait_for("the application of Tez", known, 120))

    def opened() -> Sample | None:
        found = learning.sample(job)
        return found if found is not None and found.sampling == Sampling.OPEN else None

    sample = cluster.wait_for("the open gate", opened, 240)
    assert (sample.width, sample.pilots) == (8, 4)
    assert sample.ended == 4, "containers that Tez gives back have done their task"
    assert sample.mean_ms > 3_000, "it sleeps so long, and its JVM starts"
    assert learning.wait(job) == "SUCCEEDED"
    assert client.wait(timeout=60) == 0
    wait_settled(cluster)


def test_what_the_cluster_did_is_decided_again_to_the_byte(
    learning: Learning, capsys: pytest.CaptureFixture[str]
) -> None:
    job = learning.submit(SleepJob("recorded", "ann", 4, 500, 1, 200))
    assert learning.wait(job) == "SUCCEEDED"
    wait_settled(learning.cluster)
    recording = str(learning.store.parent / "recording")

    def containers() -> int:
        capsys.readouterr()
        treadle(["recording", "show", recording, "--output=json"])
        return int(json.loads(capsys.readouterr().out)["containers"])

    learning.cluster.wait_for("the recording", lambda: containers() >= 6)
    assert treadle(["replay", recording, "--verify", "--output=json"]) == 0, capsys.readouterr().out
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["proposals"] >= 6

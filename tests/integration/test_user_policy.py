"""A user's part on a real cluster: taken over live, and replaced by the last good policy when it fails under a job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.accounts import wait_settled
from tests.support.clusters import LEASE_MS, FaultyCluster, as_administrator, faulty_cluster, write_yarn
from tests.support.documents import commands, files_of
from tests.support.files import written
from tests.support.jobs import sleep_job

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "write-a-policy.md"
GOOD = "gate=all share=capacity order=smallest.py:Smallest fit=packing estimate=none"

PART = """
import os, time

class Part:
    def keys(self, view):
        if os.path.exists({flag!r}):
            {fault}
        return view.applications["id"] * 1.0
"""
FAULTS = {
    "raises": ("raise RuntimeError('on demand')", "fault.py:7: RuntimeError: on demand"),
    "hangs": ("while True: pass", "fault.py:7: took too long and was stopped"),
    "is stuck in C": ("time.sleep(3600)", "got stuck: File"),
}


@pytest.fixture(scope="module")
def policy_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    """A cluster whose treadle.yaml is there to be replaced."""
    folder = tmp_path_factory.mktemp("policies")
    config = written(folder / "treadle.yaml", "seed: 1\n")
    for name, content in files_of(PAGE).items():
        (folder / name).write_text(content)
    with faulty_cluster(folder / "faulty", policy=config) as cluster:
        write_yarn(cluster, folder)
        yield cluster


def treadle(cluster: FaultyCluster, command: str) -> str:
    """Run a command as an administrator on the ResourceManager's host does; returns what it prints."""
    _, *words = shlex.split(command)
    done = as_administrator(cluster, cluster.folder.parent.parent, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
def test_the_live_step_of_the_page(policy_cluster: FaultyCluster) -> None:
    use, status = (command for command, output in commands(PAGE) if not output)
    before = policy_cluster.rm.treadle()

    used = treadle(policy_cluster, use)

    assert used.endswith(f"the cluster runs {GOOD}\n")
    assert "smallest.py:Smallest" in treadle(policy_cluster, status)
    after = policy_cluster.rm.treadle()
    assert after["Policy"] == GOOD
    assert (after["Snapshots"], after["LeaseFlips"]) == (before["Snapshots"], before["LeaseFlips"]), "the model stays"
    job = sleep_job(policy_cluster, "favoured", maps=4)
    job.ends_placed_by_treadle()


@pytest.mark.clock("every container is placed by the engine: no pause of the machine is longer than the lease")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.replace(" ", "-"))
def test_a_job_ends_though_a_part_fails_under_it(policy_cluster: FaultyCluster, fault: str) -> None:
    folder = policy_cluster.folder.parent.parent
    flag = folder / "fault-now"
    flag.unlink(missing_ok=True)
    code, said = FAULTS[fault]
    (folder / "fault.py").write_text(PART.format(flag=str(flag), fault=code))
    (folder / "fault.yaml").write_text("policy:\n  order: {kind: file, path: fault.py, class: Part}\n")
    treadle(policy_cluster, "treadle policy use my-policy.yaml")
    treadle(policy_cluster, "treadle policy use fault.yaml")
    wait_settled(policy_cluster)
    job = sleep_job(policy_cluster, fault.replace(" ", "-").lower(), maps=12)
    job.wait_containers(3)

    flag.touch()

    assert job.wait() == "SUCCEEDED"
    policy_cluster.wait_for("the last good policy", lambda: policy_of(policy_cluster) == GOOD, 120)
    assert said in str(policy_cluster.rm.treadle()["LastError"])
    wait_settled(policy_cluster)
    after = sleep_job(policy_cluster, "after", maps=2)
    after.ends_placed_by_treadle()
    log = (policy_cluster.layout.logs / "treadle-sidecar.log").read_text()
    assert "Traceback" in log or "most recent call first" in log


def policy_of(cluster: FaultyCluster) -> str:
    return str(cluster.rm.treadle()["Policy"])


def test_a_part_that_is_wrong_is_refused_and_the_old_policy_goes_on(policy_cluster: FaultyCluster) -> None:
    treadle(policy_cluster, "treadle policy use my-policy.yaml")
    config = policy_cluster.folder.parent.parent / "treadle.yaml"
    before = config.read_text()
    try:
        config.write_text(before.replace("class: Smallest", "class: Smalest"))
        policy_cluster.admin("-refreshQueues")
        policy_cluster.wait_for(
            "the refusal", lambda: "did you mean Smallest?" in str(policy_cluster.rm.treadle()["LastError"])
        )
        assert policy_of(policy_cluster) == GOOD
    finally:
        config.write_text(before)
        policy_cluster.admin("-refreshQueues")


assert LEASE_MS > 2 * 2 * 500, "a part that hangs must be stopped long before the lease is lost"

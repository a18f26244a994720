"""Unmodified Spark jobs with the plug-in: their stages are remembered; where that cannot be, jobs run all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.accounts import wait_settled
from tests.support.jobs import sleep_job
from typer.testing import CliRunner

from treadle.cli.history import app
from treadle.history.profile import JobProfile
from treadle.history.store import open_store
from treadle.shipped import spark_jar
from treadle_lab.demo.run import spark_submit
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings
from treadle_lab.minicluster.site import free_ports

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

JOB_TIMEOUT_S = 300


class SparkCluster:
    """A mini cluster whose sidecar takes reports on another address than the ResourceManager's."""

    def __init__(self, cluster: MiniCluster, folder: Path, port: int) -> None:
        self.cluster = cluster
        self.folder = folder
        self.address = f"127.0.0.2:{port}"

    def run(self, tag: str, *, mode: str = "cluster", address: str = "") -> str:
        """Run the demo's word count with the plug-in; return the log of whoever ran its driver."""
        settings = {
            "spark.plugins": "io.treadle.spark.TreadlePlugin",
            "spark.jars": str(spark_jar()),
            "spark.treadle.addresses": address or self.address,
            # machines that run tests are slow
            "spark.treadle.wait-ms": "30000",
        }
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command = spark_submit(self.cluster, tag, "default", str(self.folder / "words"), str(self.folder / tag))
        at = command.index("--deploy-mode")
        command[at : at + 2] = ["--name", tag, "--deploy-mode", mode, *options]
        log = self.cluster.layout.logs / f"client-{tag}.log"
        assert self.cluster.submit(command, log).wait(timeout=JOB_TIMEOUT_S) == 0, log.read_text()[-2000:]
        (found,) = self.cluster.rm.applications(applicationTags=tag)
        assert found["finalStatus"] == "SUCCEEDED"
        assert list((self.folder / tag).glob("part-*"))
        files = self.cluster.folder.glob(f"**/containers/{found['id']}/*_000001/*")
        master = "".join(file.read_text("utf-8", "replace") for file in sorted(files) if file.is_file())
        return log.read_text() if mode == "client" else master

    def profile(self, name: str) -> JobProfile | None:
        """What is remembered of an application."""
        with open_store(str(self.folder / "profiles.db"), read_only=True) as store:
            return next((profile for profile in store.profiles() if profile.key.name == name), None)

    def remembered(self, name: str) -> JobProfile:
        """Wait until an application is remembered; jobs are, with the frames of later ones."""
        assert sleep_job(self.cluster, f"after-{name}", maps=1).wait() == "SUCCEEDED"

        def known() -> JobProfile | None:
            return self.profile(name)

        found = self.cluster.wait_for(f"profile of {name}", known, 120)
        assert isinstance(found, JobProfile)
        return found


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """One cluster for all tests of this file."""
    folder = tmp_path_factory.mktemp("spark")
    (port,) = free_ports(1)
    (folder / "treadle.yaml").write_text(
        f"listener: {{address: 127.0.0.2, port: {port}}}\nhistory: {{store: {folder}/profiles.db}}\n"
    )
    (folder / "words").mkdir()
    (folder / "words" / "text").write_text("the quick brown fox jumps over the lazy dog\n" * 100)
    settings = ClusterSettings(nodes=2, memory_mb=4096, policy=folder / "treadle.yaml")
    with MiniCluster(settings, folder / "cluster") as cluster:
        wait_settled(cluster)
        yield SparkCluster(cluster, folder, port)


def test_the_stages_of_a_driver_in_the_cluster_are_remembered(spark: SparkCluster) -> None:
    log = spark.run("word-count")
    assert "are reported to Treadle" in log
    stages = {stage.name: stage for stage in spark.remembered("word count").stages}
    read, written = (next(stage for name, stage in stages.items() if name.startswith(place)) for place in ("0 ", "1 "))
    assert "executors" in stages
    assert (read.width, read.durations.count) == (2, 2)
    assert (written.width, written.durations.count, written.parents) == (4, 4, (read.name,))
    assert read.input_bytes is not None
    assert read.input_bytes > 4_000
    shown = CliRunner().invoke(app, ["show", "word-count", "--store", str(spark.folder / "profiles.db")])
    assert shown.exit_code == 0
    assert "1 runJob at" in shown.output
    assert "SparkHadoopWriter" in shown.output, "in the next line, where the table is narrow"
    assert read.name.startswith("0 reduceByKey at spark_words.py:"), "the same in each run"


def test_where_nobody_listens_a_job_runs_as_without(spark: SparkCluster) -> None:
    assert "are not all reported to Treadle" in spark.run("nobody-listens", address="127.0.0.2:1")
    assert [stage.name for stage in spark.remembered("nobody listens").stages] == ["executors"]


def test_a_driver_outside_the_cluster_says_that_it_reports_nothing(spark: SparkCluster) -> None:
    assert "has no token of an application master" in spark.run("from-outside", mode="client")

"""`treadle sweep --on spark --master yarn` on a mini cluster under Treadle, with an executor that is killed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psutil
import pytest
from tests.support.accounts import wait_settled

from treadle.cli.main import run
from treadle.lab.demo.jobs import spark_home
from treadle.lab.minicluster.cluster import MiniCluster
from treadle.lab.minicluster.settings import ClusterSettings
from treadle.lab.minicluster.site import FRUGAL

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

RUNS = int(os.environ.get("TREADLE_SWEEP_RUNS", "1000"))
TIMEOUT_S = 3600
SCENARIO = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}, b: {}}
workload:
  jobs:
    - {queue: a, count: 3, gap_s: 1, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}
    - {queue: b, count: 2, gap_s: 2, stages: [{tasks: 2, duration_s: 3, demand: {memory-mb: 1024, vcores: 1}}]}
stragglers: {probability: 0.3}
report: {window_s: 5}
"""


def executors(cluster: MiniCluster) -> list[psutil.Process]:
    """Return the processes of Spark's executors in a cluster's containers."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if "CoarseGrainedExecutorBackend" in line and str(cluster.folder) in line and "java" in line.split()[0]:
            found.append(process)
    return found


def test_a_thousand_runs_survive_the_death_of_an_executor(tmp_path: Path) -> None:
    """Nothing is lost, and the results are the bytes that this machine gives by itself."""
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"scenarios: [tiny.yaml]\npolicies: [fifo, srpt]\nseeds: {RUNS // 2}\n")
    there, kept = tmp_path / "there.json", tmp_path / "there" / "runs"
    settings = ClusterSettings(nodes=2, memory_mb=4096)
    with MiniCluster(settings, tmp_path / "cluster") as cluster:
        wait_settled(cluster)
        java = f"{FRUGAL} -Djdk.net.hosts.file={cluster.folder}/hosts"
        conf = {
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.stagingDir": f"file://{cluster.folder}/staging",
            "spark.executor.instances": "2",
            "spark.executor.memory": "512m",
            "spark.yarn.am.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.pyspark.python": sys.executable,
            "spark.driver.extraJavaOptions": java,
            "spark.yarn.am.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
            "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        }
        options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        home = ["/usr/bin/env", f"SPARK_HOME={spark_home()}", "SPARK_LOCAL_IP=127.0.0.1"]
        command = [*home, sys.executable, "-m", "treadle", "sweep", str(sweep), "--on=spark", "--master=yarn"]
        command += [f"--json={there}", f"--cache={tmp_path}/there", *options]
        log = cluster.layout.logs / "sweep.log"
        process = cluster.submit(command, log)

        def some() -> bool:
            assert process.poll() is None, log.read_text()[-4000:]
            return len(list(kept.rglob("*.json"))) >= RUNS // 10

        cluster.wait_for("a tenth of the runs", some, TIMEOUT_S)
        first, *others = executors(cluster)
        assert others, "both executors run"
        first.kill()
        assert len(list(kept.rglob("*.json"))) < RUNS, "it was killed in the middle"
        assert process.wait(timeout=TIMEOUT_S) == 0, log.read_text()[-4000:]
        said = log.read_text()
        (application,) = cluster.rm.applications(applicationTypes="SPARK")
        assert cluster.rm.treadle()["Escapes"] == 0
        assert cluster.rm.treadle()["Committed"] >= 4, "master, two executors and the one in place of the dead one"
    assert f"{RUNS} runs in " in said
    assert application["finalStatus"] == "SUCCEEDED"
    assert json.loads(there.read_text())["failures"] == []
    here = tmp_path / "here.json"
    assert run(["sweep", str(sweep), f"--json={here}", f"--cache={tmp_path}/here"]) == 0
    assert there.read_bytes() == here.read_bytes()

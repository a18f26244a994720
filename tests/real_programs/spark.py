"""Spark with dynamic allocation: an executor is killed while tasks run, and the answer is right."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.real_programs import clients, packages
from tests.real_programs.account import Account, ProgramError
from tests.real_programs.application import WAIT_S, Application, named
from tests.real_programs.spark_job import GROUPS, NUMBERS
from tests.real_programs.stage import Stage, cluster_of, stage

from treadle_lab.demo.run import spark_home, spark_options
from treadle_lab.minicluster.cluster import MiniCluster

EXECUTORS = 4
MASTER = 1


def run_3_5(account: Account) -> None:
    """Run the part with Spark 3.5."""
    _run(account, packages.site_packages(packages.python("spark-3.5", account.say)) / "pyspark")


def run_4(account: Account) -> None:
    """Run the part with the Spark 4 of the project's environment."""
    _run(account, spark_home())


def _run(account: Account, home: Path) -> None:
    cluster = cluster_of(account.name)
    with stage(account, cluster) as on:
        account.say(f"submitting a job of {home}")
        gate, output = cluster.folder / "gate", cluster.folder / "spark-output"
        client, log = clients.start(
            cluster, "spark", _command(cluster, home, str(gate), str(output)), {"SPARK_HOME": str(home)}
        )
        application = named(cluster, account.name)
        application.wait_live(MASTER + EXECUTORS)
        on.compare("grown to all executors")
        _lose_an_executor(on, application)
        gate.touch()
        application.wait_end()
        clients.finish("spark-submit", client, log)
        _check(output)


def _lose_an_executor(on: Stage, application: Application) -> None:
    killed = application.workers()[0]
    application.kill_container(killed.id)
    on.cluster.wait_for("other executor", lambda: _is_replaced(application, killed.id), WAIT_S)
    on.compare("executor killed")


def _is_replaced(application: Application, killed: str) -> bool:
    workers = {container.id for container in application.workers()}
    return len(workers) == EXECUTORS and killed not in workers


def _check(output: Path) -> None:
    found = sorted(line for file in output.glob("part-*") for line in file.read_text().splitlines())
    expected = sorted(f"{group} {sum(range(group, NUMBERS, GROUPS))}" for group in range(GROUPS))
    if found != expected:
        raise ProgramError(f"Spark's answer is {found}, not {expected}")


def _command(cluster: MiniCluster, home: Path, gate: str, output: str) -> list[str]:
    settings = {
        "spark.app.name": cluster.folder.parent.name,
        "spark.yarn.jars": f"local:{home}/jars/*",
        "spark.yarn.queue": "default",
        "spark.yarn.maxAppAttempts": "1",
        "spark.yarn.report.interval": "500",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
        "spark.executor.cores": "2",
        "spark.ui.enabled": "false",
    }
    options = spark_options(cluster, settings)
    submit = [str(home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster"]
    script = str(Path(__file__).with_name("spark_job.py"))
    local = ["/usr/bin/env", "SPARK_LOCAL_IP=127.0.0.1", f"PYSPARK_PYTHON={sys.executable}"]
    return [*local, *submit, *options, script, gate, output]

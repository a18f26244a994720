"""Flink's SQL in application mode with high availability, on ZooKeeper: the job outlives master, worker and RM.

The job sums random numbers for ever and takes a checkpoint each second. After each event it has to complete a later
checkpoint with exactly the TaskManagers that the RM has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real_programs import clients, packages
from tests.real_programs.account import Account
from tests.real_programs.application import WAIT_S, Application, named
from tests.real_programs.daemons import zookeeper
from tests.real_programs.stage import Stage, cluster_of, stage

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.processes import JavaProgram
from treadle_lab.minicluster.site import FRUGAL

SQL_CLIENT = "org.apache.flink.table.client.SqlClient"
WORKERS = 2
OPENED = ("lang", "net", "io", "nio", "text", "time", "util", "lang.reflect", "util.concurrent")
"""Packages of java.base that Flink's own configuration opens."""

SCRIPT = """
CREATE TABLE numbers (kind BIGINT, amount INT) WITH (
  'connector' = 'datagen', 'rows-per-second' = '50', 'fields.kind.min' = '0', 'fields.kind.max' = '9');
CREATE TABLE sums (kind BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO sums SELECT kind, SUM(amount) FROM numbers GROUP BY kind;
"""


def run(account: Account) -> None:
    """Run the part."""
    package = packages.site_packages(packages.python("flink", account.say)) / "pyflink"
    gateway = packages.jars("flink", account.say)
    cluster = cluster_of(account.name)
    with stage(account, cluster) as on, zookeeper(cluster) as address:
        companion = on.companion()
        account.say("submitting Flink's SQL script")
        job = _submit(cluster, package, gateway, address)
        last = job.progress()
        on.compare("started")
        job.application.kill_master()
        last = job.progress(last)
        on.compare("AM killed")
        job.application.move("batch")
        last = _lose_a_worker(on, job, last, "moved and TaskManager killed")
        on.kill_rm()
        last = job.progress(last)
        on.compare("RM killed")
        _lose_a_worker(on, job, last, "TaskManager killed after that")
        job.application.kill()
        companion.kill()


@dataclass(frozen=True)
class Job:
    """The running job."""

    application: Application

    def progress(self, last: int = 0) -> int:
        """Wait until the job runs on all workers of the RM and completes a checkpoint later than `last`; returns it."""
        cluster = self.application.cluster
        return int(cluster.wait_for(f"checkpoint after {last} of Flink's job", lambda: self._checkpoint(last), WAIT_S))

    def _checkpoint(self, last: int) -> int:
        self.application.check_running()
        workers = {container.id for container in self.application.workers()}
        registered = {str(each["id"]) for each in self._page("taskmanagers")["taskmanagers"]}
        jobs = self._page("jobs/overview")["jobs"]
        if len(workers) != WORKERS or registered != workers or len(jobs) != 1:
            return 0
        tasks = jobs[0]["tasks"]
        completed = self._page(f"jobs/{jobs[0]['jid']}/checkpoints")["latest"]["completed"]
        later = completed is not None and int(completed["id"]) > last
        return int(completed["id"]) if later and tasks["running"] == tasks["total"] else 0

    def _page(self, path: str) -> Any:
        return self.application.cluster.rm.get(f"/proxy/{self.application.id}/{path}")


def _lose_a_worker(on: Stage, job: Job, last: int, event: str) -> int:
    """Treadle places a worker for the one that ends."""
    killed = job.application.workers()[0]
    job.application.kill_container(killed.id)
    on.cluster.wait_for("other TaskManager", lambda: _is_replaced(job, killed.id), WAIT_S)
    last = job.progress(last)
    on.compare(event)
    return last


def _is_replaced(job: Job, killed: str) -> bool:
    workers = {container.id for container in job.application.workers()}
    return len(workers) == WORKERS and killed not in workers


def _submit(cluster: MiniCluster, package: Path, gateway: Path, address: str) -> Job:
    """Submit the script; returns when the RM knows its application."""
    folder = cluster.folder / "flink"
    conf, jars = folder / "conf", folder / "opt"
    conf.mkdir(parents=True)
    jars.mkdir()
    # Flink's distribution has this jar beside the others of this folder
    for jar in [*package.glob("opt/*.jar"), *gateway.glob("*.jar")]:
        (jars / jar.name).symlink_to(jar)
    _configure(cluster, conf, address)
    (folder / "job.sql").write_text(SCRIPT)
    options = (
        *FRUGAL.split(),
        *_opened(),
        f"-Duser.home={cluster.folder}/home",
        f"-Dlog.file={cluster.layout.logs}/flink-client.log",
        f"-Dlog4j.configurationFile=file:{conf}/log4j.properties",
    )
    classpath = (f"{package}/lib/*", f"{jars}/*", str(cluster.layout.conf), f"{cluster.lib}/*")
    program = JavaProgram("flink", SQL_CLIENT, classpath, 256, options)
    environment = {
        "FLINK_CONF_DIR": str(conf),
        "FLINK_LIB_DIR": f"{package}/lib",
        "FLINK_OPT_DIR": str(jars),
        "FLINK_PLUGINS_DIR": f"{package}/plugins",
    }
    clients.run(cluster, "flink", program.command(cluster.layout, ["-f", f"{folder}/job.sql"]), environment)
    application = named(cluster, "flink-ha")
    application.wait_running()
    return Job(application)


def _configure(cluster: MiniCluster, conf: Path, address: str) -> None:
    state = f"file://{cluster.folder}/flink"
    settings = {
        "execution.target": "yarn-application",
        "yarn.application.name": "flink-ha",
        "yarn.application.queue": "default",
        "yarn.application-attempts": "5",
        "yarn.heartbeat.container-request-interval": "250",
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": address,
        "high-availability.storageDir": f"{state}/ha",
        # the next master leads as soon as the session of the killed one has ended
        "high-availability.zookeeper.client.session-timeout": "10000",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.dir": f"{state}/checkpoints",
        "jobmanager.memory.process.size": "800m",
        "jobmanager.memory.jvm-metaspace.size": "160m",
        "taskmanager.memory.process.size": "768m",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.managed.size": "64m",
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
        "taskmanager.numberOfTaskSlots": "1",
        "parallelism.default": str(WORKERS),
        "env.java.opts.all": " ".join([*FRUGAL.split(), *_opened()]),
    }
    (conf / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    for name in ("log4j.properties", "log4j-cli.properties"):
        (conf / name).write_text(LOGGING)


def _opened() -> list[str]:
    return [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]


LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = FILE
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss} %p %c{2} - %m%n
"""

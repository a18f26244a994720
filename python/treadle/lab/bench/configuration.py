"""The Hadoop configuration of one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from treadle.lab.bench.modes import Kind, Mode
from treadle.lab.bench.workload import AM_SHARE, CONTAINER_MB, NODE_MB, NODE_VCORES, QUEUES, Workload

POOL_THREADS: Final = 16
"""SLS's threads, which play all nodes and application masters."""

HEARTBEAT_MS: Final = 1_000

_LOG4J = """\
log4j.rootLogger=WARN,file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File={file}
log4j.appender.file.MaxFileSize=64MB
log4j.appender.file.MaxBackupIndex=1
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{{ISO8601}} %p %c{{2}} [%t]: %m%n
log4j.logger.io.treadle=INFO
# warns at the end of each application that it has ended already
log4j.logger.org.apache.hadoop.yarn.sls.appmaster=ERROR
"""


def write_configuration(
    folder: Path, mode: Mode, workload: Workload, measurements: Path, log: Path, sidecar_command: str
) -> None:
    """Write the files that a simulation in `mode` reads from its class path into `folder`."""
    site = yarn_site(mode, workload, measurements, sidecar_command, log.with_name("sidecar.log"))
    files = {
        "core-site.xml": {"fs.defaultFS": "file:///", "hadoop.security.authentication": "simple"},
        "yarn-site.xml": site,
        "sls-runner.xml": {**sls_runner(), **site},
        "capacity-scheduler.xml": capacity_scheduler(mode),
    }
    for name, properties in files.items():
        (folder / name).write_text(to_xml(properties))
    (folder / "log4j.properties").write_text(_LOG4J.format(file=log))


def yarn_site(
    mode: Mode, workload: Workload, measurements: Path, sidecar_command: str, sidecar_log: Path
) -> dict[str, str]:
    """Return the ResourceManager's settings: the same for all modes but for the scheduler."""
    manager = "yarn.resourcemanager."
    settings = {
        manager + "hostname": "127.0.0.1",
        manager + "scheduler.class": mode.scheduler_class,
        manager + "scheduler.monitor.enable": "false",
        manager + "nodemanagers.heartbeat-interval-ms": str(HEARTBEAT_MS),
        manager + "am.max-attempts": "1",
        manager + "work-preserving-recovery.enabled": "false",
        "yarn.scheduler.minimum-allocation-mb": str(CONTAINER_MB),
        "yarn.scheduler.maximum-allocation-mb": str(NODE_MB),
        "yarn.scheduler.maximum-allocation-vcores": str(NODE_VCORES),
        "treadle.bench.output": str(measurements),
        "treadle.bench.jobs": str(workload.jobs),
    }
    for service in ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address"):
        settings[manager + service] = "127.0.0.1:0"
    settings.update(mode.yarn_settings)
    if mode.kind in (Kind.TREADLE, Kind.OBSERVER):
        settings["yarn.scheduler.treadle.sidecar"] = "managed"
        settings["yarn.scheduler.treadle.python.command"] = sidecar_command
        settings["yarn.scheduler.treadle.sidecar.log-file"] = str(sidecar_log)
    return settings


def sls_runner() -> dict[str, str]:
    """Return the simulator's settings."""
    return {
        "yarn.sls.runner.pool.size": str(POOL_THREADS),
        "yarn.sls.nm.memory.mb": str(NODE_MB),
        "yarn.sls.nm.vcores": str(NODE_VCORES),
        "yarn.sls.nm.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "yarn.sls.am.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "yarn.sls.am.type.mapreduce": "org.apache.hadoop.yarn.sls.appmaster.MRAMSimulator",
        "yarn.sls.am.container.memory": str(CONTAINER_MB),
        "yarn.sls.am.container.vcores": "1",
        "yarn.sls.container.memory.mb": str(CONTAINER_MB),
        "yarn.sls.container.vcores": "1",
        "yarn.sls.metrics.switch": "false",
        "yarn.sls.dns.caching.enabled": "true",
    }


def capacity_scheduler(mode: Mode) -> dict[str, str]:
    """Three queues that may each grow to the whole cluster, one user."""
    prefix = "yarn.scheduler.capacity."
    settings = {
        prefix + "root.queues": ",".join(QUEUES),
        prefix + "maximum-applications": "100000",
        prefix + "maximum-am-resource-percent": str(AM_SHARE),
    }
    for queue, capacity in QUEUES.items():
        settings[f"{prefix}root.{queue}.capacity"] = str(capacity)
        settings[f"{prefix}root.{queue}.maximum-capacity"] = "100"
        settings[f"{prefix}root.{queue}.user-limit-factor"] = "100"
    settings.update(mode.capacity_settings)
    return settings


def to_xml(properties: Mapping[str, str]) -> str:
    """Return a Hadoop configuration file."""
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'

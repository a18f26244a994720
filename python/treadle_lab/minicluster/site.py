"""A mini cluster's folder, its addresses, and its configuration."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from treadle.admin import site_files
from treadle.errors import UserError
from treadle.files import write_whole
from treadle_lab.minicluster.settings import ClusterError, ClusterSettings, Scheduler, java_home, treadle_command

MARK: Final = ".treadle-minicluster"
"""A file that says: all that is in this folder was made by a mini cluster."""


def recreate(folder: Path) -> None:
    """Create an empty folder for a cluster; remove the files of an earlier one.

    Raises:
        ClusterError: there are foreign files, or the folder cannot be created.
    """
    mark = folder / MARK
    try:
        if folder.is_dir() and any(folder.iterdir()) and not mark.is_file():
            raise ClusterError(
                f"{folder} is not empty, and its content was not made by a mini cluster: nothing was touched; "
                "choose another folder, or empty it yourself"
            )
        if folder.is_dir():
            _empty(folder)
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError as error:
        raise ClusterError(f"{folder} cannot be a cluster's folder: {error.strerror or error}") from error


def _empty(folder: Path) -> None:
    """Remove all but the mark, which goes last: a removal that is broken off can be taken up again."""
    for entry in sorted(folder.iterdir()):
        if entry.name == MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


LOOPBACK = "127.0.0.1"
# Below the kernel's range of ports for outgoing connections, so that none is taken between choice and use.
FIRST, LAST = 20000, 32000
SLICE = 200
"""Ports that one process at a time tries first: what a process chooses is bound later, by another one."""


@cache
def _slice_start() -> int:
    """Return the first port of a slice that no other process in this network namespace tries first."""
    slices = (LAST - FIRST) // SLICE
    for number in range(slices):
        start = FIRST + (os.getpid() + number) % slices * SLICE
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0treadle-ports-{start}")  # an abstract name: the kernel drops it with the process
        except OSError:
            claim.close()
            continue
        claim.detach()  # open until the process ends
        return start
    return FIRST


_chosen_in: dict[int, int] = {}
"""The call in which this process chose a port last; the program that it is for may not listen yet."""


def free_ports(count: int) -> list[int]:
    """Choose `count` different ports that nothing listens on; those of recent calls come last.

    Raises:
        ClusterError: there are not that many.
    """
    start = _slice_start()
    own, others = list(range(start, start + SLICE)), [*range(FIRST, start), *range(start + SLICE, LAST)]
    random.shuffle(own)
    random.shuffle(others)
    chosen: list[int] = []
    with ExitStack() as held:
        for port in [*sorted(own, key=_last_chosen), *sorted(others, key=_last_chosen)]:
            if len(chosen) == count:
                break
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            chosen.append(port)
    if len(chosen) < count:
        raise ClusterError(
            f"fewer than {count} free ports between {FIRST} and {LAST}; stop something that listens there"
        )
    _chosen_in.update(dict.fromkeys(chosen, 1 + max(_chosen_in.values(), default=0)))
    return chosen


def _last_chosen(port: int) -> int:
    return _chosen_in.get(port, 0)


_RM_PORTS = 5
_NM_PORTS = 3


@dataclass
class ProcessRecord:
    """A process of the cluster; its creation time distinguishes it from a later one with the same id."""

    name: str
    pid: int
    created: float


@dataclass
class Layout:
    """Where a cluster keeps its files and listens."""

    folder: Path
    rm_ports: list[int]
    nm_ports: list[list[int]]
    scheduler: str = ""
    waits_for_lease: bool = False
    named_nodes: bool = False
    """Has each node a name and an address of its own?"""
    processes: list[ProcessRecord] = field(default_factory=list)

    @classmethod
    def create(cls, folder: Path, nodes: int, named_nodes: bool = False) -> Layout:
        """Choose free ports for a cluster of `nodes` NodeManagers under `folder`."""
        ports = free_ports(_RM_PORTS + nodes * _NM_PORTS)
        rest = ports[_RM_PORTS:]
        of_nodes = [rest[i * _NM_PORTS : (i + 1) * _NM_PORTS] for i in range(nodes)]
        return cls(folder, ports[:_RM_PORTS], of_nodes, named_nodes=named_nodes)

    @property
    def conf(self) -> Path:
        """The HADOOP_CONF_DIR."""
        return self.folder / "conf"

    @property
    def logs(self) -> Path:
        """Where every process of the cluster logs."""
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        """The RM's audit log: a line for every container allocated and released."""
        return self.logs / "rm-audit.log"

    @property
    def sidecar_log(self) -> Path:
        """Standard error of a managed sidecar."""
        return self.logs / "treadle-sidecar.log"

    @property
    def rm_url(self) -> str:
        """The RM's web address."""
        return f"http://{LOOPBACK}:{self.rm_ports[4]}"

    def node_folder(self, number: int) -> Path:
        """Return the folder of node `number` (from 1)."""
        return self.folder / f"nm{number}"

    def node_host(self, number: int) -> str:
        """Return the host name of node `number` (from 1)."""
        return f"node{number}" if self.named_nodes else "localhost"

    def node_address(self, number: int) -> str:
        """Return the loopback address of node `number` (from 1)."""
        return f"127.0.1.{number}" if self.named_nodes else LOOPBACK

    def node_id(self, number: int) -> str:
        """YARN's name of node `number` (from 1)."""
        return f"{self.node_host(number)}:{self.nm_ports[number - 1][0]}"

    @property
    def state_file(self) -> Path:
        """The file that `save` writes."""
        return self.folder / "cluster.json"

    def save(self) -> None:
        """Remember the cluster, its processes included."""
        text = json.dumps({**asdict(self), "folder": str(self.folder)}, indent=1)
        write_whole(self.state_file, text)

    @classmethod
    def load(cls, folder: Path) -> Layout | None:
        """Return what `save` wrote, or None if there is no cluster in `folder`.

        Raises:
            ClusterError: the file is not one that `save` wrote.
        """
        file = folder / "cluster.json"
        if not file.is_file():
            return None
        try:
            values = json.loads(file.read_text())
            records = [ProcessRecord(**record) for record in values.pop("processes")]
            return cls(**{**values, "folder": folder, "processes": records})
        except (ValueError, TypeError, KeyError) as error:
            raise ClusterError(f"{file} is damaged ({error}); remove the folder {folder}") from error


Entries = dict[str, str]
# Two cores for everything: the serial collector has no threads of its own, C1 compiles at a tenth of C2's cost.
FRUGAL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:CICompilerCount=1 -Xshare:auto -XX:-UsePerfData"
OPENED = "--add-opens java.base/java.lang=ALL-UNNAMED"
CS = "yarn.scheduler.capacity."


def write_site(file: Path, entries: Mapping[str, str]) -> None:
    """Write a Hadoop configuration file."""
    root = ElementTree.Element("configuration")
    for key, value in entries.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = key
        ElementTree.SubElement(entry, "value").text = value
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def container_options(layout: Layout, heap_mb: int) -> str:
    """JVM options of AMs and tasks."""
    return f"-Xmx{heap_mb}m {FRUGAL} {OPENED} -Djdk.net.hosts.file={layout.folder}/hosts"


def core_site(layout: Layout) -> Entries:
    """core-site.xml: the local file system is the cluster's."""
    return {
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": str(layout.folder / "tmp"),
        "hadoop.http.staticuser.user": "treadle",
        "hadoop.security.authorization": "false",
        "ipc.client.connect.retry.interval": "200",
        "ipc.client.connect.max.retries.on.timeouts": "10",
    }


def yarn_site(layout: Layout, settings: ClusterSettings, lib: Path) -> Entries:
    """yarn-site.xml of the RM and of clients; NodeManagers add `node_site`."""
    host = [f"{LOOPBACK}:{port}" for port in layout.rm_ports]
    entries = {
        "yarn.resourcemanager.hostname": LOOPBACK,
        "yarn.resourcemanager.address": host[0],
        "yarn.resourcemanager.scheduler.address": host[1],
        "yarn.resourcemanager.resource-tracker.address": host[2],
        "yarn.resourcemanager.admin.address": host[3],
        "yarn.resourcemanager.webapp.address": host[4],
        "yarn.resourcemanager.scheduler.class": settings.scheduler.class_name,
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": str(settings.heartbeat_ms),
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "yarn.resourcemanager.am.max-attempts": "2",
        # unless nodes have names, every NodeManager is on one host
        "yarn.scheduler.include-port-in-node-name": "false" if settings.named_nodes else "true",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.maximum-allocation-mb": str(settings.memory_mb),
        "yarn.scheduler.maximum-allocation-vcores": str(settings.vcores),
        "yarn.application.classpath": f"{layout.conf},{lib}/*",
        "yarn.app.mapreduce.am.staging-dir": str(layout.folder / "staging"),
        "yarn.timeline-service.enabled": "false",
        "yarn.log-aggregation-enable": "false",
        # the default is one folder for each user of the machine, which two RMs that start together overwrite
        "yarn.node-attribute.fs-store.root-dir": f"file://{layout.folder}/attributes",
    }
    if settings.labels:
        entries["yarn.node-labels.enabled"] = "true"
        entries["yarn.node-labels.fs-store.root-dir"] = f"file://{layout.folder}/labels"
    if settings.recovery:
        entries["yarn.resourcemanager.recovery.enabled"] = "true"
        entries["yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms"] = "1000"
        entries["yarn.resourcemanager.store.class"] = (
            "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore"
        )
        entries["yarn.resourcemanager.fs.state-store.uri"] = f"file://{layout.folder}/state"
    if settings.scheduler is Scheduler.TREADLE:
        entries.update(treadle_entries(layout, settings))
    return {**entries, **settings.overrides}


def treadle_entries(layout: Layout, settings: ClusterSettings) -> Entries:
    """Return the lines that an administrator would add for Treadle."""
    entries = {
        "yarn.scheduler.treadle.mode": settings.mode,
        "yarn.scheduler.treadle.python.command": str(treadle_command()),
        "yarn.scheduler.treadle.sidecar.log-file": str(layout.sidecar_log),
    }
    if settings.policy is not None:
        entries["yarn.scheduler.treadle.config.file"] = str(settings.policy.resolve())
    return entries


def node_site(layout: Layout, settings: ClusterSettings, number: int) -> Entries:
    """Return what node `number` (from 1) adds to yarn-site.xml."""
    folder = layout.node_folder(number)
    address = layout.node_address(number)
    host = [f"{address}:{port}" for port in layout.nm_ports[number - 1]]
    return {
        "yarn.nodemanager.hostname": address,
        "yarn.nodemanager.address": host[0],
        "yarn.nodemanager.localizer.address": host[1],
        "yarn.nodemanager.webapp.address": host[2],
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "containers"),
        "yarn.nodemanager.resource.memory-mb": str(settings.memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(settings.vcores),
        "yarn.nodemanager.aux-services": "mapreduce_shuffle",
        "yarn.nodemanager.recovery.dir": str(folder / "recovery"),
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        # a developer's disk is often full beyond the default of 90 %
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": "250",
        "yarn.nodemanager.process-kill-wait.ms": "500",
        "yarn.nodemanager.localizer.fetch.thread-count": "2",
        "yarn.nodemanager.container-localizer.java.opts": f"-Xmx128m {FRUGAL}",
        **settings.overrides,
    }


def mapred_site(layout: Layout, lib: Path) -> Entries:
    """mapred-site.xml: small, frugal AMs and tasks."""
    return {
        "mapreduce.framework.name": "yarn",
        "mapreduce.application.classpath": f"{layout.conf},{lib}/*",
        "mapreduce.jobhistory.address": f"{LOOPBACK}:1",
        "yarn.app.mapreduce.am.staging-dir": str(layout.folder / "staging"),
        "yarn.app.mapreduce.am.resource.mb": "512",
        "yarn.app.mapreduce.am.command-opts": container_options(layout, 256),
        "yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms": "250",
        "mapreduce.map.memory.mb": "256",
        "mapreduce.reduce.memory.mb": "256",
        "mapreduce.map.java.opts": container_options(layout, 160),
        "mapreduce.reduce.java.opts": container_options(layout, 160),
        "mapreduce.task.io.sort.mb": "16",
        # read by the NodeManagers; in yarn-site.xml mapred-default.xml would win
        "mapreduce.shuffle.port": "0",
        "mapreduce.job.emit-timeline-data": "false",
    }


def tez_site(layout: Layout, lib: Path) -> Entries:
    """tez-site.xml: Tez's jars come from the runtime on this machine, nothing is uploaded."""
    return {
        "tez.ignore.lib.uris": "true",
        "tez.cluster.additional.classpath.prefix": f"{layout.conf}:{lib}/*",
        "tez.staging-dir": str(layout.folder / "staging" / "tez"),
        "tez.am.resource.memory.mb": "512",
        "tez.am.launch.cmd-opts": container_options(layout, 256),
        "tez.task.resource.memory.mb": "256",
        "tez.task.launch.cmd-opts": container_options(layout, 160),
        "tez.am.am-rm.heartbeat.interval-ms.max": "250",
        "tez.runtime.io.sort.mb": "16",
        "tez.runtime.unordered.output.buffer.size-mb": "8",
        "tez.am.tez-ui.webservice.enable": "false",
    }


def queue_entries(capacities: Mapping[str, object], user_limit: int) -> Entries:
    """Return queues by their capacity in percent of their parent's, parents first; each may grow to the whole cluster.

    A user may have ``user_limit`` times the capacity of a queue.
    """
    entries: Entries = {}
    for queue, capacity in capacities.items():
        parent, _, name = f"root.{queue}".rpartition(".")
        siblings = entries.get(f"{CS}{parent}.queues")
        entries[f"{CS}{parent}.queues"] = f"{siblings},{name}" if siblings else name
        own = {"capacity": str(capacity), "maximum-capacity": "100", "user-limit-factor": str(user_limit)}
        entries |= {f"{CS}root.{queue}.{key}": value for key, value in own.items()}
    return entries


def default_queues(settings: ClusterSettings) -> Entries:
    """capacity-scheduler.xml with one queue."""
    entries = {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "0.5",
        f"{CS}root.queues": "default",
        f"{CS}root.default.capacity": "100",
    }
    for label in settings.labels:
        entries[f"{CS}root.accessible-node-labels.{label.name}.capacity"] = "100"
        entries[f"{CS}root.default.accessible-node-labels.{label.name}.capacity"] = "100"
    if settings.labels:
        entries[f"{CS}root.default.accessible-node-labels"] = "*"
    return entries


def node_resources(settings: ClusterSettings) -> Entries:
    """node-resources.xml of each node."""
    return {f"yarn.nodemanager.resource-type.{name}": str(amount) for name, amount in settings.resources.items()}


def hosts(layout: Layout) -> str:
    """Return a hosts file for every JVM: this machine's own name is loopback, and no name server is asked."""
    names = dict.fromkeys(["localhost", socket.gethostname(), socket.gethostname().split(".")[0]])
    lines = [f"{LOOPBACK} {' '.join(names)}"]
    if layout.named_nodes:
        lines += [f"{layout.node_address(n)} {layout.node_host(n)}" for n in range(1, len(layout.nm_ports) + 1)]
    return "\n".join(lines) + "\n"


LOG4J = """\
log4j.rootLogger=INFO,FILE
log4j.appender.FILE=org.apache.log4j.FileAppender
log4j.appender.FILE.File=${treadle.log.file}
log4j.appender.FILE.layout=org.apache.log4j.PatternLayout
log4j.appender.FILE.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
log4j.appender.AUDIT=org.apache.log4j.FileAppender
log4j.appender.AUDIT.File=${treadle.audit.file}
log4j.appender.AUDIT.layout=org.apache.log4j.PatternLayout
log4j.appender.AUDIT.layout.ConversionPattern=%d{ISO8601} %m%n
log4j.logger.org.apache.hadoop.yarn.server.resourcemanager.RMAuditLogger=INFO,AUDIT
log4j.additivity.org.apache.hadoop.yarn.server.resourcemanager.RMAuditLogger=false
# a line for every step of every container says nothing that the audit log does not
log4j.logger.org.apache.hadoop.yarn.server.nodemanager=WARN
log4j.logger.org.apache.hadoop.yarn.server.resourcemanager.rmcontainer=WARN
# every look at a web page
log4j.logger.http.requests=WARN
"""
# JMX beans are read afresh each second, not each ten
METRICS = "*.period=1\n"
CLIENT_LOG4J = """\
log4j.rootLogger=INFO,CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.target=System.err
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{HH:mm:ss} %p %c{2}: %m%n
"""


def write_configuration(layout: Layout, settings: ClusterSettings, lib: Path) -> None:
    """Write the HADOOP_CONF_DIR and a folder of additions for the RM and every NodeManager.

    Raises:
        ClusterError: the given capacity-scheduler.xml cannot be read.
    """
    layout.logs.mkdir(parents=True, exist_ok=True)
    for folder in (layout.conf, layout.folder / "rm", layout.folder / "tmp", layout.folder / "staging"):
        folder.mkdir(parents=True, exist_ok=True)
    yarn = yarn_site(layout, settings, lib)
    shared = {
        "core-site.xml": core_site(layout),
        "yarn-site.xml": yarn,
        "mapred-site.xml": mapred_site(layout, lib),
        "tez-site.xml": tez_site(layout, lib),
        "resource-types.xml": {"yarn.resource-types": ",".join(settings.resources)} if settings.resources else {},
    }
    for name, entries in shared.items():
        write_site(layout.conf / name, entries)
    (layout.conf / "log4j.properties").write_text(CLIENT_LOG4J)
    (layout.conf / "hadoop-env.sh").write_text(f"export JAVA_HOME={java_home()}\n")
    (layout.folder / "hosts").write_text(hosts(layout))
    (layout.folder / "rm" / "log4j.properties").write_text(LOG4J)
    (layout.folder / "rm" / "hadoop-metrics2.properties").write_text(METRICS)
    write_queues(layout, settings)
    for number in range(1, settings.nodes + 1):
        folder = layout.node_folder(number)
        for part in ("local", "containers", "conf"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        write_site(folder / "conf" / "yarn-site.xml", {**yarn, **node_site(layout, settings, number)})
        write_site(folder / "conf" / "node-resources.xml", node_resources(settings))
        (folder / "conf" / "log4j.properties").write_text(LOG4J)


def write_queues(layout: Layout, settings: ClusterSettings) -> None:
    """Write capacity-scheduler.xml; the RM reads it again at `yarn rmadmin -refreshQueues`.

    Raises:
        ClusterError: the given file cannot be read.
    """
    target = layout.conf / "capacity-scheduler.xml"
    entries = default_queues(settings) if settings.queues is None else read_site(settings.queues)
    if settings.scheduler is Scheduler.CAPACITY_ASYNC:
        entries[f"{CS}schedule-asynchronously.enable"] = "true"
    write_site(target, entries)


def read_site(file: Path) -> dict[str, str]:
    """Return the entries of a Hadoop configuration file.

    Raises:
        ClusterError: it is not one.
    """
    try:
        found = site_files.settings_of(site_files.read_site(file))
    except UserError as error:
        raise ClusterError(f"not a Hadoop configuration file: {error}") from error
    return {name: setting.value.strip() for name, setting in found.items()}

"""Writing a mini cluster's configuration folders."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from treadle.lab.minicluster import site
from treadle.lab.minicluster.errors import ClusterError
from treadle.lab.minicluster.layout import Layout
from treadle.lab.minicluster.settings import ClusterSettings, Scheduler

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
    yarn = site.yarn_site(layout, settings, lib)
    shared = {
        "core-site.xml": {**site.core_site(layout), **settings.core_overrides},
        "yarn-site.xml": yarn,
        "mapred-site.xml": site.mapred_site(layout, lib),
        "tez-site.xml": site.tez_site(layout, lib),
        "resource-types.xml": site.resource_types(settings),
    }
    for name, entries in shared.items():
        site.write_site(layout.conf / name, entries)
    (layout.conf / "log4j.properties").write_text(CLIENT_LOG4J)
    (layout.conf / "hadoop-env.sh").write_text(site.environment_file())
    (layout.folder / "hosts").write_text(site.hosts(layout))
    (layout.folder / "rm" / "log4j.properties").write_text(LOG4J)
    (layout.folder / "rm" / "hadoop-metrics2.properties").write_text(METRICS)
    write_queues(layout, settings)
    for number in range(1, settings.nodes + 1):
        folder = layout.node_folder(number)
        for part in ("local", "containers", "conf"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        site.write_site(folder / "conf" / "yarn-site.xml", {**yarn, **site.node_site(layout, settings, number)})
        site.write_site(folder / "conf" / "node-resources.xml", site.node_resources(settings))
        (folder / "conf" / "log4j.properties").write_text(LOG4J)


def write_queues(layout: Layout, settings: ClusterSettings) -> None:
    """Write capacity-scheduler.xml; the RM reads it again at `yarn rmadmin -refreshQueues`.

    Raises:
        ClusterError: the given file cannot be read.
    """
    target = layout.conf / "capacity-scheduler.xml"
    entries = site.default_queues(settings) if settings.queues is None else read_site(settings.queues)
    if settings.scheduler is Scheduler.CAPACITY_ASYNC:
        entries.update(site.asynchronous())
    site.write_site(target, entries)


def read_site(file: Path) -> dict[str, str]:
    """Return the entries of a Hadoop configuration file.

    Raises:
        ClusterError: it is not one.
    """
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314 - the user's own file
    except (OSError, ElementTree.ParseError) as error:
        raise ClusterError(f"{file}: not a Hadoop configuration file: {error}") from error
    if root.tag != "configuration":
        raise ClusterError(f"{file}: the outermost element is <{root.tag}>; it must be <configuration>")
    return {
        (entry.findtext("name") or "").strip(): (entry.findtext("value") or "").strip()
        for entry in root.iter("property")
    }

"""Hive's command line on Tez, with a metastore of its own: tables are made, filled, joined and grouped."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.real_programs import clients, packages
from tests.real_programs.account import Account, ProgramError
from tests.real_programs.application import Application
from tests.real_programs.stage import cluster_of, stage

from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.processes import JavaProgram
from treadle_lab.minicluster.site import FRUGAL, container_options, write_site

CLI = "org.apache.hadoop.hive.cli.CliDriver"
OPENED = (
    "lang",
    "util",
    "net",
    "nio",
    "io",
    "math",
    "text",
    "time",
    "util.concurrent",
    "util.concurrent.atomic",
    "util.regex",
    "lang.reflect",
)
"""Packages of java.base that Hive looks into."""

ORDERS, CUSTOMERS, PRICE = 1000, 7, 3
SCRIPT = f"""
CREATE TABLE orders (id INT, customer INT, amount INT) STORED AS ORC;
INSERT INTO orders SELECT at, at % {CUSTOMERS}, at * {PRICE}
  FROM (SELECT posexplode(split(space({ORDERS - 1}), ' ')) AS (at, nothing)) positions;
CREATE TABLE customers (id INT, name STRING);
INSERT INTO customers VALUES {", ".join(f"({number}, 'customer{number}')" for number in range(CUSTOMERS))};
SELECT 'row', customers.name, COUNT(*), SUM(orders.amount) FROM orders
  JOIN customers ON orders.customer = customers.id GROUP BY customers.name ORDER BY customers.name;
"""


def run(account: Account) -> None:
    """Run the part."""
    jars = packages.jars("hive", account.say)
    cluster = cluster_of(account.name)
    with stage(account, cluster) as on:
        account.say("running Hive's script")
        output = clients.run(cluster, "hive", _command(cluster, jars))
        rows = [tuple(line.split("\t")[1:]) for line in output.splitlines() if line.startswith("row\t")]
        if rows != _expected():
            raise ProgramError(f"Hive's answer is {rows}, not {_expected()}")
        sessions = [app for app in cluster.rm.applications() if app["applicationType"] == "TEZ"]
        if not sessions:
            raise ProgramError("Hive used no application of Tez")
        for session in sessions:
            Application(cluster, session["id"]).wait_end()
        on.compare("answered")


def _expected() -> list[tuple[str, ...]]:
    """Return the rows that Hive must print, computed without it."""
    of: dict[int, list[int]] = defaultdict(list)
    for order in range(ORDERS):
        of[order % CUSTOMERS].append(order * PRICE)
    return [(f"customer{number}", str(len(of[number])), str(sum(of[number]))) for number in range(CUSTOMERS)]


def _command(cluster: MiniCluster, jars: Path) -> list[str]:
    folder = cluster.folder / "hive"
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (folder / "tmp").mkdir()
    (folder / "script.sql").write_text(SCRIPT)
    java = f"{container_options(cluster.layout, 300)} {' '.join(_opened())}"
    paths = {
        "hive.metastore.warehouse.dir": "warehouse",
        "hive.metastore.warehouse.external.dir": "external",
        "hive.exec.scratchdir": "scratch",
        "hive.user.install.directory": "user",
        "hive.jar.directory": "jars",
    }
    settings = {
        **{key: f"file://{folder}/{name}" for key, name in paths.items()},
        "hive.exec.local.scratchdir": f"{folder}/local",
        "hive.downloaded.resources.dir": f"{folder}/resources",
        "hive.querylog.location": f"{folder}/log",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.notification.event.poll.interval": "0s",
        "hive.stats.autogather": "false",
        "hive.auto.convert.join": "false",
        "hive.execution.engine": "tez",
        "hive.tez.container.size": "512",
        "hive.tez.java.opts": java,
        "tez.am.launch.cmd-opts": java,
        # Hive's tasks need it, and a distribution of Hadoop has it
        "hive.aux.jars.path": f"file://{next(jars.glob('commons-collections-3.*.jar'))}",
    }
    write_site(conf / "hive-site.xml", settings)
    options = (
        *FRUGAL.split(),
        *_opened(),
        f"-Duser.home={cluster.folder}/home",
        f"-Djava.io.tmpdir={folder}/tmp",
        f"-Dderby.stream.error.file={folder}/derby.log",
    )
    classpath = (str(conf), str(cluster.layout.conf), f"{jars}/*", f"{cluster.lib}/*")
    return JavaProgram("hive", CLI, classpath, 400, options).command(cluster.layout, ["-f", f"{folder}/script.sql"])


def _opened() -> list[str]:
    return [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]

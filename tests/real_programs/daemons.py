"""ZooKeeper and HDFS beside a mini cluster, from the jars of its runtime; the cluster's stop ends them."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from tests.real_programs.account import ProgramError
from tests.support.sites import change

from treadle_lab.minicluster import processes
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.processes import JavaProgram
from treadle_lab.minicluster.site import FRUGAL, LOOPBACK, free_ports, read_site, write_site

START_S = 120.0
ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


@contextmanager
def zookeeper(cluster: MiniCluster) -> Iterator[str]:
    """Run a ZooKeeper server; gives its address."""
    folder = cluster.folder / "zookeeper"
    folder.mkdir()
    (port,) = free_ports(1)
    settings = folder / "zoo.cfg"
    settings.write_text(
        f"tickTime=1000\ndataDir={folder}/data\nclientPort={port}\nclientPortAddress={LOOPBACK}\n"
        "admin.enableServer=false\n4lw.commands.whitelist=ruok\n"
    )
    with _running(cluster, "zookeeper", ZOOKEEPER, cluster.layout.conf, str(settings)):
        cluster.wait_for("ZooKeeper", lambda: _answers(port), START_S)
        yield f"{LOOPBACK}:{port}"


@contextmanager
def hdfs(cluster: MiniCluster) -> Iterator[None]:
    """Run a NameNode and a DataNode, as the default file system of clients and containers that start meanwhile."""
    folder = cluster.folder / "hdfs"
    conf = folder / "conf"
    conf.mkdir(parents=True)
    port, pages, *others = free_ports(5)
    names = ("dfs.datanode.address", "dfs.datanode.http.address", "dfs.datanode.ipc.address")
    write_site(
        conf / "hdfs-site.xml",
        {
            "dfs.namenode.name.dir": f"file://{folder}/name",
            "dfs.datanode.data.dir": f"file://{folder}/data",
            "dfs.namenode.rpc-address": f"{LOOPBACK}:{port}",
            "dfs.namenode.http-address": f"{LOOPBACK}:{pages}",
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
            **{name: f"{LOOPBACK}:{other}" for name, other in zip(names, others, strict=True)},
        },
    )
    site = cluster.layout.conf / "core-site.xml"
    local = read_site(site)["fs.defaultFS"]
    change(site, {"fs.defaultFS": f"hdfs://{LOOPBACK}:{port}"})
    shutil.copy(site, conf)
    shutil.copy(cluster.layout.conf / "log4j.properties", conf)
    with _running(cluster, "hdfs-format", NAMENODE, conf, "-format", "-nonInteractive") as formatting:
        if code := formatting.wait(START_S):
            raise ProgramError(f"the NameNode's format ended with {code}; see {cluster.layout.logs}/hdfs-format.out")
    with _running(cluster, "namenode", NAMENODE, conf), _running(cluster, "datanode", DATANODE, conf):
        cluster.wait_for("DataNode", lambda: _data_nodes(pages) == 1, START_S)
        yield
    change(site, {"fs.defaultFS": local})


@contextmanager
def _running(
    cluster: MiniCluster, name: str, main: str, conf: Path, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    program = JavaProgram(name, main, (str(conf), f"{cluster.lib}/*"), 192, tuple(FRUGAL.split()))
    with (cluster.layout.logs / f"{name}.out").open("ab") as out:
        process = subprocess.Popen(
            program.command(cluster.layout, arguments),
            cwd=cluster.folder,
            env={**processes.environment(cluster.layout, conf), processes.MARK: str(cluster.folder)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    """Say whether a ZooKeeper server on a port is well."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=5) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False


def _data_nodes(port: int) -> int:
    """Return how many DataNodes a NameNode whose pages are on a port knows."""
    with requests.Session() as session:
        session.trust_env = False
        query = {"qry": "Hadoop:service=NameNode,name=FSNamesystemState"}
        beans = session.get(f"http://{LOOPBACK}:{port}/jmx", params=query, timeout=5).json()["beans"]
    return int(beans[0]["NumLiveDataNodes"]) if beans else 0

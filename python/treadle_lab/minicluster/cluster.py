"""A real Hadoop cluster on loopback: started, asked whether it is ready, stopped; with files for its clients."""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil
import requests

from treadle.admin.plan import settings_in
from treadle.errors import UserError
from treadle.files import write_whole
from treadle.shipped import requirements_jar, shim_jar
from treadle.yarn.pages import open_session, refusal_of
from treadle_lab.minicluster import processes
from treadle_lab.minicluster.processes import JavaProgram, Say, uninterrupted
from treadle_lab.minicluster.settings import SHIM_CLASS, ClusterError, ClusterSettings, Scheduler, build_folder, gather
from treadle_lab.minicluster.site import FRUGAL, Layout, recreate, write_configuration


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float, poll_s: float, more: str = "") -> Any:
    """Wait until `condition` returns a true value, and return that; an RM without an answer counts as false.

    Args:
        what: description of the condition
        condition: the condition
        timeout_s: limit of the wait
        poll_s: interval of the checks
        more: addition to the error

    Raises:
        ClusterError: the timeout was reached.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            value = condition()
        except requests.RequestException:
            value = None
        if value:
            return value
        if time.monotonic() > deadline:
            raise ClusterError(f"no {what} within {timeout_s:g} s{more}")
        time.sleep(poll_s)


POLL_S = 0.1
_CLUSTER = "/ws/v1/cluster/"
_CLI: Final = "org.apache.hadoop.yarn.client.cli"
ADMIN_MAIN: Final = f"{_CLI}.RMAdminCLI"
ATTRIBUTES_MAIN: Final = f"{_CLI}.NodeAttributesCLI"


def missing(cluster: MiniCluster) -> str | None:
    """Return the condition that the cluster still waits for; None if it is ready."""
    try:
        states = [node["state"] for node in cluster.rm.nodes()]
        running = states.count("RUNNING")
        nodes = len(cluster.layout.nm_ports)
        if running < nodes:
            return f"waiting for NodeManagers: {running} of {nodes} are running"
        if cluster.layout.waits_for_lease:
            bean = cluster.rm.treadle()
            if bean.get("LeaseHeld") != 1:
                trouble = bean.get("Refusal") or bean.get("LastError")
                if bean.get("Mode") == "off" and not trouble:
                    return None  # it was disabled: no engine will come
                return "waiting for the engine to hold the lease" + (f" ({trouble})" if trouble else "")
    except requests.HTTPError as error:
        return f"waiting for the ResourceManager ({': '.join(filter(None, refusal_of(error.response)))})"
    except requests.RequestException:
        return "waiting for the ResourceManager"
    return None


def _reason(layout: Layout, name: str) -> str:
    """Return the last lines of a daemon's output that say why it ended."""
    lines = _tail(layout.logs / f"{name}.out") + _tail(layout.logs / f"{name}.log")
    marked = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return "\n".join((marked or lines)[:5]) + f"\n(all of it: {layout.logs}/{name}.log)"


def _tail(file: Path, size: int = 50_000) -> list[str]:
    return file.read_text(errors="replace")[-size:].splitlines() if file.is_file() else []


def put_labels(rm: ResourceManagerClient, layout: Layout, settings: ClusterSettings, user: str) -> None:
    """Make the cluster's node labels and put them on the nodes.

    Raises:
        ClusterError: the RM refused.
    """
    if not settings.labels:
        return
    kinds = [{"name": label.name, "exclusivity": label.exclusive} for label in settings.labels]
    pairs = [(layout.node_id(number), label.name) for label in settings.labels for number in label.nodes]
    try:
        rm.post(_CLUSTER + "add-node-labels", {"nodeLabelInfo": kinds}, user)
        for node, name in pairs:
            rm.post(f"{_CLUSTER}nodes/{node}/replace-labels?labels={name}", {}, user)
    except requests.RequestException as error:
        raise ClusterError(f"the RM refused the node labels: {error}") from error


def put_attributes(cluster: MiniCluster) -> None:
    """Give the cluster's nodes their attributes, and wait until the RM shows them.

    Raises:
        ClusterError: the RM refused, or they do not come.
    """
    layout, wanted = cluster.layout, Counter[str]()
    by_node: dict[int, list[str]] = {}
    for one in cluster.settings.attributes:
        for number in one.nodes:
            by_node.setdefault(number, []).append(f"{one.name}={one.value}")
            wanted[layout.node_host(number)] += 1
    if not by_node:
        return
    mapping = " ".join(f"{layout.node_host(number)}:{','.join(texts)}" for number, texts in sorted(by_node.items()))
    cluster.client(ATTRIBUTES_MAIN, "-replace", mapping)

    def shown() -> bool:
        found = {node["nodeHostName"]: len(_attributes(node)) for node in cluster.rm.nodes()}
        return all(found.get(host) == count for host, count in wanted.items())

    cluster.wait_for("node with all its attributes", shown)


def _attributes(node: dict[str, Any]) -> list[Any]:
    return list((node.get("nodeAttributesInfo") or {}).get("nodeAttributeInfo") or [])


SCRIPT_S = 60


def class_path(conf: Path) -> list[str]:
    """Return the ResourceManager's class path from the yarn-env.sh of a HADOOP_CONF_DIR; often empty.

    Raises:
        ClusterError: the script fails.
    """
    script = conf / "yarn-env.sh"
    if not script.is_file():
        return []
    words = 'HADOOP_USER_PARAMS=(resourcemanager); . "$0"; echo "${HADOOP_CLASSPATH-}"'
    try:
        done = subprocess.run(
            ["/bin/bash", "-ec", words, str(script)],
            capture_output=True,
            text=True,
            check=True,
            timeout=SCRIPT_S,
            env={"PATH": "/bin:/usr/bin"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", "") or error
        raise ClusterError(f"{script} cannot be run: {reason}; correct it, or remove what was added to it") from error
    return [entry for entry in done.stdout.strip().split(":") if entry]


def schedules(conf: Path) -> bool:
    """Return whether yarn-site.xml, or a file that it includes, has Treadle decide, if only to compare.

    Raises:
        ClusterError: it cannot be read.
    """
    try:
        site = {name: each.value.strip() for name, each in settings_in(conf).items()}
    except UserError as error:
        raise ClusterError(str(error)) from error
    mode = site.get("yarn.scheduler.treadle.mode", "observe_only")
    return site.get("yarn.resourcemanager.scheduler.class") == SHIM_CLASS and mode != "off"


RM_MAIN = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NM_MAIN = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
RM = "rm"


class MiniCluster:
    """A cluster in a folder; as a context manager it is started on entry and stopped on exit, whatever happens between.

    Nodes are numbered from 1. Methods that wait raise `ClusterError` when their deadline passes.
    """

    def __init__(
        self, settings: ClusterSettings | None = None, folder: Path | None = None, say: Say = lambda _: None
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.folder = (folder or build_folder() / "minicluster").resolve()
        self._say = say
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._layout: Layout | None = None
        self._rm: ResourceManagerClient | None = None

    @classmethod
    def attach(cls, folder: Path) -> MiniCluster | None:
        """Return the running cluster in `folder`, or None.

        Its `settings` are the defaults but for the scheduler: no more is known of it than what its processes show.
        """
        layout = Layout.load(folder.resolve())
        if layout is None or not any(processes.find(entry) for entry in layout.processes):
            return None
        cluster = cls(folder=folder)
        cluster._layout = layout
        cluster.settings = dataclasses.replace(cluster.settings, scheduler=Scheduler(layout.scheduler))
        return cluster

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- start and stop ---

    def start(self) -> None:
        """Start every process and wait until the cluster is ready.

        Raises:
            ClusterError: it does not become ready, or another cluster runs in the folder.
        """
        known = Layout.load(self.folder)
        if known is not None and processes.members(known):
            raise ClusterError(f"a cluster is running in {self.folder}; stop it first: treadle minicluster stop")
        recreate(self.folder)
        gather(self._say)
        self._layout = Layout.create(self.folder, self.settings.nodes, self.settings.named_nodes)
        self._layout.scheduler = self.settings.scheduler.value
        self._layout.waits_for_lease = self.settings.waits_for_lease
        try:
            write_configuration(self.layout, self.settings, self.lib)
            self.layout.save()
            self.start_rm()
            for number in range(1, self.settings.nodes + 1):
                self.start_node(number)
            self.wait_ready()
            put_labels(self.rm, self.layout, self.settings, getpass.getuser())
            put_attributes(self)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process of the cluster, containers and sidecar included; files stay until the next start."""
        layout = self._layout
        if layout is None:
            return
        # a second Ctrl-C must not leave anything behind
        with uninterrupted():
            self._say("stopping")
            if self._rm is not None:
                self._rm.close()
                self._rm = None  # the next start has other ports
            processes.end(layout)
            for child in self._children.values():
                child.wait()
            self._children.clear()
            layout.processes.clear()
            layout.state_file.unlink(missing_ok=True)

    def wait_ready(self) -> None:
        """Wait until every NodeManager is RUNNING and, if Treadle enforces, an engine holds the lease.

        Raises:
            ClusterError: a daemon ended, or `start_timeout_s` passed.
        """
        timeout_s = self.settings.start_timeout_s
        deadline = time.monotonic() + timeout_s
        while (reason := missing(self)) is not None:
            self._say(reason)
            if dead := self.died():
                raise ClusterError(f"{dead} ended before the cluster was ready:\n{_reason(self.layout, dead)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"not ready after {timeout_s:g} s: {reason}; logs are in {self.layout.logs}")
            time.sleep(POLL_S)

    # --- daemons ---

    def start_rm(self, scheduler: Scheduler | None = None) -> None:
        """Start the RM, with another scheduler than before if one is given; returns at once.

        Under the stock scheduler it is what its configuration makes of it: `treadle install` may have changed that.
        """
        if scheduler is not None and scheduler is not self.settings.scheduler:
            self._change_scheduler(scheduler)
        shim = [str(shim_jar()), str(requirements_jar())] if self.settings.needs_shim else []
        if self.settings.scheduler is Scheduler.CAPACITY:
            shim += class_path(self.layout.conf)
            self.layout.waits_for_lease = schedules(self.layout.conf)
        classpath = (f"{self.folder}/rm", str(self.layout.conf), *shim, f"{self.lib}/*")
        options = (*FRUGAL.split()[:1], "-XX:-UsePerfData", *self._log_options(RM))
        self._launch(JavaProgram(RM, RM_MAIN, classpath, 1024, options), self.folder / "rm")

    def start_node(self, number: int) -> None:
        """Start NodeManager `number`; returns at once."""
        name = f"nm{number}"
        folder = self.layout.node_folder(number)
        classpath = (f"{folder}/conf", str(self.layout.conf), f"{self.lib}/*")
        self._launch(JavaProgram(name, NM_MAIN, classpath, 400, (*FRUGAL.split(), *self._log_options(name))), folder)

    def process(self, name: str) -> psutil.Process:
        """Return a daemon's process: that of ``rm``, ``nm1``, ``nm2``, ...

        Raises:
            ClusterError: it does not run.
        """
        process = self._running(name)
        if process is None:
            raise ClusterError(f"{name} is not running")
        return process

    def finish(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a daemon by a signal; returns when it is gone. Containers of a node go on, as on a real node."""
        process = self.process(name)
        process.send_signal(number)
        child = self._children.pop(name, None)
        try:
            if child is not None:
                child.wait(timeout=60)
            else:
                process.wait(timeout=60)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            raise ClusterError(f"{name} did not end within 60 s of a {number.name}") from None
        self.layout.processes = [entry for entry in self.layout.processes if entry.name != name]
        self.layout.save()

    def restart_rm(self, kill: bool = False, scheduler: Scheduler | None = None) -> None:
        """Stop or kill the RM unless it has ended, start it again and wait until the cluster is ready."""
        if self._running(RM) is not None:
            self.finish(RM, signal.SIGKILL if kill else signal.SIGTERM)
        self.start_rm(scheduler)
        self.wait_ready()

    def sidecar_pids(self) -> list[int]:
        """Return the live sidecars of this cluster: the RM's own child, and any that outlived its RM."""
        return sorted(process.pid for process in processes.members(self.layout) if processes.is_sidecar(process))

    def sidecar_pid(self) -> int:
        """Return the one sidecar's process id.

        Raises:
            ClusterError: there is none, or more than one.
        """
        pids = self.sidecar_pids()
        if len(pids) != 1:
            raise ClusterError(f"expected one sidecar, found {len(pids)}: {pids}")
        return pids[0]

    # --- questions and jobs ---

    @property
    def layout(self) -> Layout:
        """Folders and addresses."""
        if self._layout is None:
            raise ClusterError("the cluster has not been started")
        return self._layout

    @property
    def lib(self) -> Path:
        """The folder with the runtime's jars."""
        return gather()

    @property
    def rm(self) -> ResourceManagerClient:
        """The RM's REST pages and JMX beans."""
        if self._rm is None:
            self._rm = ResourceManagerClient(self.layout.rm_url)
        return self._rm

    def containers(self) -> dict[str, set[str]]:
        """For each application the containers that the RM allocated to it, by its audit log."""
        return allocated_containers(self.layout.audit_log)

    def environment(self) -> dict[str, str]:
        """Return the environment in which Hadoop, Tez and Spark clients find this cluster."""
        return processes.environment(self.layout)

    def java(self, main: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        """Return the command line of a Java client program."""
        classpath = (str(self.layout.conf), f"{self.lib}/*")
        return JavaProgram("client", main, classpath, heap_mb, tuple(FRUGAL.split())).command(self.layout, arguments)

    def submit(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Run a client command in the background, its output in `log`; `stop` ends it if it still runs."""
        log.parent.mkdir(parents=True, exist_ok=True)
        return processes.launch(self.layout, command, self.folder, log)

    def admin(self, *arguments: str) -> str:
        """`yarn rmadmin ARGUMENTS`: its output.

        Raises:
            ClusterError: the RM refused.
        """
        return self.client(ADMIN_MAIN, *arguments)

    def client(self, main: str, *arguments: str) -> str:
        """Run a Java client program; return its output.

        Raises:
            ClusterError: it failed.
        """
        command = self.java(main, *arguments)
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            raise ClusterError(f"{main} {' '.join(arguments)} failed: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def wait_for(self, what: str, condition: Callable[[], Any], timeout_s: float = 60.0, poll_s: float = 0.1) -> Any:
        """Wait until `condition` gives something true, and return that; an RM that does not answer counts as not yet.

        Raises:
            ClusterError: it did not within `timeout_s` seconds.
        """
        return wait_for(what, condition, timeout_s, poll_s, f"; the cluster's logs are in {self.layout.logs}")

    # --- inside ---

    def died(self) -> str:
        """Return the name of a daemon that should run and does not, or the empty string."""
        for entry in self.layout.processes:
            child = self._children.get(entry.name)
            if child is not None and child.poll() is not None:
                return entry.name
        return ""

    def _launch(self, program: JavaProgram, cwd: Path) -> None:
        if self._running(program.name) is not None:
            raise ClusterError(f"{program.name} is running already")
        if (ended := self._children.pop(program.name, None)) is not None:
            ended.wait()
        output = self.layout.logs / f"{program.name}.out"
        child = processes.launch(self.layout, program.command(self.layout), cwd, output)
        self._children[program.name] = child
        others = [entry for entry in self.layout.processes if entry.name != program.name]
        self.layout.processes = [*others, processes.record(program.name, child)]
        self.layout.save()

    def _running(self, name: str) -> psutil.Process | None:
        for entry in self.layout.processes:
            if entry.name == name and (process := processes.find(entry)):
                return process
        return None

    def _change_scheduler(self, scheduler: Scheduler) -> None:
        self.settings = dataclasses.replace(self.settings, scheduler=scheduler)
        self.layout.scheduler = scheduler.value
        self.layout.waits_for_lease = self.settings.waits_for_lease
        write_configuration(self.layout, self.settings, self.lib)

    def _log_options(self, name: str) -> tuple[str, ...]:
        logs = self.layout.logs
        audit = self.layout.audit_log if name == RM else os.devnull
        return (f"-Dtreadle.log.file={logs}/{name}.log", f"-Dtreadle.audit.file={audit}")


_COMMANDS: Final = {
    "rmadmin": (ADMIN_MAIN,),
    "application": (f"{_CLI}.ApplicationCLI", "application"),
    "app": (f"{_CLI}.ApplicationCLI", "app"),
    "applicationattempt": (f"{_CLI}.ApplicationCLI", "applicationattempt"),
    "container": (f"{_CLI}.ApplicationCLI", "container"),
    "node": (f"{_CLI}.NodeCLI",),
    "queue": (f"{_CLI}.QueueCLI",),
    "cluster": (f"{_CLI}.ClusterCLI",),
    "nodeattributes": (ATTRIBUTES_MAIN,),
    "logs": (f"{_CLI}.LogsCLI",),
    "jar": ("org.apache.hadoop.util.RunJar",),
    "classpath": ("org.apache.hadoop.util.Classpath", "--glob"),
}
"""For each command of `yarn` the class that does it, and what its arguments begin with."""

SLEEP_JOB: Final = "org.apache.hadoop.mapreduce.SleepJob"


def client_environment(cluster: MiniCluster) -> dict[str, str]:
    """Return the environment of a user's command: the cluster's `yarn` comes first, `treadle` finds its pages."""
    environment = cluster.environment()
    path = environment.get("PATH") or os.defpath
    return environment | {"PATH": f"{write_yarn(cluster)}{os.pathsep}{path}", "TREADLE_RM": cluster.layout.rm_url}


def write_yarn(cluster: MiniCluster) -> Path:
    """Write the cluster's `yarn`; returns the folder that it is in."""
    folder = cluster.layout.folder / "bin"
    folder.mkdir(exist_ok=True)
    write_whole(folder / "yarn", _script(cluster), lambda file: os.fchmod(file, 0o755))
    return folder


def sleep_job(
    cluster: MiniCluster, queue: str, maps: int, reduces: int, task_ms: int, memory_mb: int, tags: Sequence[str]
) -> list[str]:
    """Return the command line of a MapReduce job whose tasks ask for so much memory, MiB, and sleep."""
    shape = ("-m", str(maps), "-r", str(reduces), "-mt", str(task_ms), "-rt", str(task_ms))
    memory = (f"-Dmapreduce.{kind}.memory.mb={memory_mb}" for kind in ("map", "reduce"))
    tagged = (f"-Dmapreduce.job.tags={','.join(tags)}",) if tags else ()
    return cluster.java(SLEEP_JOB, f"-Dmapreduce.job.queuename={queue}", *memory, *tagged, *shape)


def _script(cluster: MiniCluster) -> str:
    known = " ".join(_COMMANDS)
    lines = [
        "#!/bin/sh",
        f"# The `yarn` of the mini cluster in {cluster.layout.folder}.",
        "name=$1",
        "[ $# -eq 0 ] || shift",
        'case "$name" in',
        *(f'  {name}) exec {shlex.join(cluster.java(*call))} "$@" ;;' for name, call in _COMMANDS.items()),
        f'  *) echo "yarn $name: the mini cluster has none; it has {known}" >&2; exit 2 ;;',
        "esac",
    ]
    return "\n".join([*lines, ""])


TREADLE_BEAN = "Hadoop:service=ResourceManager,name=Treadle"
_ALLOCATED = re.compile(
    r"OPERATION=AM Allocated Container\b.*?\bRESULT=SUCCESS\b"
    r".*?\bAPPID=(application_\d+_\d+).*?\bCONTAINERID=(container_\w+)"
)


class ResourceManagerClient:
    """Reads one ResourceManager. Each method raises `requests.RequestException` when the RM does not answer."""

    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._session = open_session()
        self._session.trust_env = False  # a proxy cannot reach loopback

    def close(self) -> None:
        """Close idle connections."""
        self._session.close()

    def get(self, path: str, **parameters: str) -> Any:
        """Return the JSON behind a path below the RM's address."""
        answer = self._session.get(
            self.url + path, params=parameters, timeout=self._timeout_s, headers={"Accept": "application/json"}
        )
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any], user: str, method: str = "POST") -> None:
        """Send JSON to a path below the RM's address as `user`; PUT replaces a resource."""
        parameters = {"user.name": user}
        answer = self._session.request(method, self.url + path, json=body, params=parameters, timeout=self._timeout_s)
        answer.raise_for_status()

    def nodes(self) -> list[dict[str, Any]]:
        """Every node that the RM knows."""
        return list(((self.get("/ws/v1/cluster/nodes").get("nodes")) or {}).get("node", []))

    def applications(self, **filters: str) -> list[dict[str, Any]]:
        """Applications, for instance `states="RUNNING"` or `applicationTags="nightly"`."""
        return list(((self.get("/ws/v1/cluster/apps", **filters).get("apps")) or {}).get("app", []))

    def application(self, application_id: str) -> dict[str, Any]:
        """One application."""
        return dict(self.get(f"/ws/v1/cluster/apps/{application_id}")["app"])

    def _held(self, attribute: str) -> dict[str, Any]:
        """Return the JSON object in an attribute of Treadle's bean; empty without the bean."""
        beans = self.get("/jmx", get=f"{TREADLE_BEAN}::{attribute}")["beans"]
        return dict(json.loads(beans[0][attribute])) if beans else {}

    def treadle(self) -> dict[str, Any]:
        """Treadle's metrics; empty under another scheduler."""
        return self._held("Status")

    def placements(self) -> dict[str, dict[str, int]]:
        """For each application the containers placed by `treadle` and by anyone else (`native`)."""
        return self._held("Placements")

    def metrics(self) -> dict[str, Any]:
        """Return the cluster's metrics."""
        return dict(self.get("/ws/v1/cluster/metrics")["clusterMetrics"])


def allocated_containers(audit_log: Path) -> dict[str, set[str]]:
    """For each application the ids of the containers that the RM allocated to it, by its audit log."""
    allocated: dict[str, set[str]] = {}
    if audit_log.is_file():
        with audit_log.open(errors="replace") as lines:
            for line in lines:
                match = _ALLOCATED.search(line)
                if match:
                    allocated.setdefault(match[1], set()).add(match[2])
    return allocated

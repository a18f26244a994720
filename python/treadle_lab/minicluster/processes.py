"""Processes of a mini cluster, and what a command says while they start."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from treadle_lab.minicluster import site
from treadle_lab.minicluster.settings import ClusterError, java_home
from treadle_lab.minicluster.site import Layout, ProcessRecord


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM while a cluster is being stopped (in the main thread; elsewhere none arrive).

    By a handler: processes that are started meanwhile would inherit SIG_IGN, and a JVM then heeds no SIGTERM ever.
    """
    with _handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), lambda *_: None):
        yield


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program as Ctrl-C does: by an exception, so that its processes are terminated.

    One that is ignored, as SIGHUP below nohup, stays so. In the main thread; elsewhere no signal arrives.
    """
    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    with _handling(numbers, signal.default_int_handler):
        yield


@contextmanager
def _handling(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Give signals a handler for a while; outside the main thread, to which no other may give any, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


MARK = "TREADLE_MINICLUSTER"
GRACE_S = 8.0
SIDECAR_GRACE_S = 3.0
"""How long a sidecar may take to end after its ResourceManager, in seconds: it completes its recording."""


@dataclass(frozen=True)
class JavaProgram:
    """A Java program of the cluster.

    Attributes:
        name: names its log files.
        main: the main class.
        classpath: entries of the class path.
        heap_mb: its maximum heap.
        options: further JVM options.
    """

    name: str
    main: str
    classpath: tuple[str, ...]
    heap_mb: int
    options: tuple[str, ...] = ()

    def command(self, layout: Layout, arguments: Iterable[str] = ()) -> list[str]:
        """Return the whole command line."""
        return [
            str(java_home() / "bin" / "java"),
            f"-Xmx{self.heap_mb}m",
            *site.OPENED.split(),
            f"-Djdk.net.hosts.file={layout.folder}/hosts",
            f"-Dyarn.log.dir={layout.logs}",
            *self.options,
            "-cp",
            ":".join(self.classpath),
            self.main,
            *arguments,
        ]


def environment(layout: Layout, conf: Path | None = None) -> dict[str, str]:
    """Return the environment of the cluster's processes and of its clients.

    Client programs find the cluster by HADOOP_CONF_DIR; nothing of a Hadoop or Spark that the user has leaks in.
    """
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("HADOOP_", "YARN_", "SPARK_", "TEZ_"))
    }
    folder = str(conf or layout.conf)
    return {
        **kept,
        "JAVA_HOME": str(java_home()),
        "HADOOP_CONF_DIR": folder,
        "YARN_CONF_DIR": folder,
        "LC_ALL": "C.UTF-8",
    }


def launch(layout: Layout, command: Sequence[str], cwd: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a daemon or a client of a cluster."""
    return detached(command, cwd, log, {**environment(layout), MARK: str(layout.folder)})


def detached(
    command: Sequence[str], cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that a Ctrl-C at the terminal reaches only us; its output is logged.

    Args:
        command: the program and its arguments
        cwd: the folder in which it runs
        log: the file to which its output is added
        env: all variables that it gets; None: this process's
    """
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def record(name: str, process: subprocess.Popen[bytes]) -> ProcessRecord:
    """Return what identifies a process that was just started.

    Raises:
        ClusterError: it has ended already.
    """
    try:
        return ProcessRecord(name, process.pid, psutil.Process(process.pid).create_time())
    except psutil.NoSuchProcess:
        raise ClusterError(f"{name} ended as soon as it was started") from None


def find(entry: ProcessRecord) -> psutil.Process | None:
    """Return the live process of a record, or None."""
    try:
        process = psutil.Process(entry.pid)
        same = abs(process.create_time() - entry.created) < 1.0
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def members(layout: Layout) -> list[psutil.Process]:
    """Every live process that belongs to the cluster: daemons, sidecar, containers and what these started.

    Daemons and the sidecar carry our mark; YARN gives each container an environment that names the node.s folders.
    """
    processes = []
    local = f"{layout.folder}/nm"
    for process in psutil.process_iter():
        try:
            env = process.environ()
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
        if env.get(MARK) == str(layout.folder) or env.get("LOCAL_DIRS", "").startswith(local):
            processes.append(process)
    return processes


def end(layout: Layout, grace_s: float = GRACE_S) -> int:
    """End every process of the cluster: SIGTERM to the daemons, after `grace_s` seconds SIGKILL to whatever is left.

    Returns:
        how many had to be killed.
    """
    for entry in layout.processes:
        process = find(entry)
        if process is not None:
            _signal(process, signal.SIGCONT)
            _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and any(find(entry) for entry in layout.processes):
        time.sleep(0.05)
    deadline = time.monotonic() + SIDECAR_GRACE_S
    while time.monotonic() < deadline and any(is_sidecar(process) for process in members(layout)):
        time.sleep(0.05)
    killed = 0
    # A container's shell may start one more process meanwhile: repeat until there is none.
    for _ in range(50):
        left = members(layout)
        if not left:
            break
        for process in left:
            killed += _signal(process, signal.SIGKILL)
        psutil.wait_procs(left, timeout=1)
    return killed


def is_sidecar(process: psutil.Process) -> bool:
    """Return whether a process is a sidecar started by its ResourceManager."""
    try:
        arguments = process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return "sidecar" in arguments and "--managed" in arguments


def _signal(process: psutil.Process, number: signal.Signals) -> bool:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


Say = Callable[[str], None]

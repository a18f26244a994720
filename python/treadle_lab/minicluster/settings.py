"""The settings of a mini cluster, and the JDK and the Hadoop runtime that it runs on."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from treadle.errors import UserError


class ClusterError(UserError):
    """A mini cluster operation failed; the text has the reason and the remedy."""


SHIM_CLASS = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler"
STOCK_CLASS = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
ALLOCATOR_KEY = "yarn.scheduler.app-placement-allocator.class"
_RESOURCE_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9._-]*(/[a-zA-Z0-9][a-zA-Z0-9._-]*)?")
_LABEL_NAME = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z_-]*")
_VALUE = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z_.-]*")
_NODES = re.compile(r"[0-9]{1,4}(,[0-9]{1,4})*")
_BUILT_IN = {"memory", "memory-mb", "vcores"}


class Scheduler(StrEnum):
    """The scheduler: our shim, or Hadoop's CapacityScheduler by heartbeats or by its own thread."""

    TREADLE = "treadle"
    CAPACITY = "capacity"
    CAPACITY_ASYNC = "capacity-async"

    @property
    def class_name(self) -> str:
        """The class that the RM loads."""
        return SHIM_CLASS if self is Scheduler.TREADLE else STOCK_CLASS


@dataclass(frozen=True)
class NodeLabel:
    """A partition of the cluster and the numbers (from 1) of the nodes in it."""

    name: str
    nodes: tuple[int, ...]
    exclusive: bool = True

    @classmethod
    def parse(cls, text: str) -> NodeLabel:
        """Read `NAME=NODE[,NODE…]`, or `NAME:shared=…` for a label whose idle nodes others may use.

        Raises:
            ClusterError: it is not of that form.
        """
        name, equals, numbers = text.partition("=")
        name, colon, kind = name.partition(":")
        nodes = _numbers(numbers)
        if not equals or not nodes or not _LABEL_NAME.fullmatch(name) or (colon and kind != "shared"):
            raise ClusterError(
                f"label {text!r}: write NAME=NODE[,NODE...] or NAME:shared=NODE[,NODE...], as in gpu=1,2"
            )
        return cls(name, nodes, exclusive=not colon)


@dataclass(frozen=True)
class NodeAttribute:
    """An attribute of nodes (`rm.yarn.io/NAME`), its value, and the numbers (from 1) of the nodes that have it."""

    name: str
    value: str
    nodes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> NodeAttribute:
        """Read `NAME=VALUE:NODE[,NODE…]`.

        Raises:
            ClusterError: it is not of that form.
        """
        name, equals, rest = text.partition("=")
        value, colon, numbers = rest.rpartition(":")
        nodes = _numbers(numbers)
        if not equals or not colon or not nodes or not _LABEL_NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ClusterError(f"attribute {text!r}: write NAME=VALUE:NODE[,NODE...], as in zone=a:1,2")
        return cls(name, value, nodes)


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list of nodes; none if it is not one."""
    return tuple(int(number) for number in text.split(",")) if _NODES.fullmatch(text) else ()


@dataclass(frozen=True)
class ClusterSettings:
    """A mini cluster's shape.

    Attributes:
        nodes: number of NodeManagers.
        memory_mb: memory that each NodeManager offers.
        vcores: virtual cores that each NodeManager offers.
        resources: further resource types and how much of each a node offers; nothing stands behind them.
        labels: partitions.
        attributes: attributes of nodes, of which each then has a name and an address of its own.
        scheduler: who schedules.
        mode: Treadle's mode: enforce, observe_only or off.
        queues: a capacity-scheduler.xml, or None for one queue `default`.
        policy: a treadle.yaml, or None for the defaults.
        recovery: keep the RM's state in a folder, so that a restarted RM goes on with its applications.
        heartbeat_ms: interval of the NodeManagers' heartbeats.
        overrides: entries of yarn-site.xml that replace or add to ours.
        start_timeout_s: how long the cluster may take until it is ready.
    """

    nodes: int = 3
    memory_mb: int = 8192
    vcores: int = 8
    resources: Mapping[str, int] = field(default_factory=dict)
    labels: tuple[NodeLabel, ...] = ()
    attributes: tuple[NodeAttribute, ...] = ()
    scheduler: Scheduler = Scheduler.TREADLE
    mode: str = "enforce"
    queues: Path | None = None
    policy: Path | None = None
    recovery: bool = False
    heartbeat_ms: int = 250
    overrides: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 180.0

    def __post_init__(self) -> None:
        """Refuse what could not start.

        Raises:
            ClusterError: a value is out of its range or a file is missing.
        """
        for name, least, most in (("nodes", 1, 64), ("memory_mb", 256, 1 << 24), ("vcores", 1, 4096)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ClusterError(f"{name.replace('_', '-')} is {value}; it must lie between {least} and {most}")
        if self.mode not in ("enforce", "observe_only", "off"):
            raise ClusterError(f"mode is {self.mode!r}; it must be enforce, observe_only or off")
        for name, amount in self.resources.items():
            if not _RESOURCE_NAME.fullmatch(name) or name in _BUILT_IN or amount < 0:
                raise ClusterError(
                    f"resource {name}={amount}: write NAME=AMOUNT, as in gpu=4, other than memory and vcores"
                )
        self._check_places()
        names = [label.name for label in self.labels]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ClusterError(f"label {twice} is given twice; name all its nodes once")
        labelled = sorted(number for label in self.labels for number in label.nodes)
        for number, next_ in itertools.pairwise(labelled):
            if number == next_:
                raise ClusterError(f"node {number} has two labels; a node belongs to one partition")
        for file in (self.queues, self.policy):
            if file is not None and not file.is_file():
                raise ClusterError(f"{file}: no such file")

    def _check_places(self) -> None:
        places = [(f"label {one.name}", one.nodes) for one in self.labels]
        places += [(f"attribute {one.name}", one.nodes) for one in self.attributes]
        for what, nodes in places:
            wrong = [number for number in nodes if not 1 <= number <= self.nodes]
            if wrong:
                raise ClusterError(f"{what}: there is no node {wrong[0]}; nodes are 1 to {self.nodes}")
        taken: set[tuple[str, int]] = set()
        for one in self.attributes:
            for number in one.nodes:
                if (one.name, number) in taken:
                    raise ClusterError(f"attribute {one.name}: node {number} has two values")
                taken.add((one.name, number))

    @property
    def named_nodes(self) -> bool:
        """Has each node a name of its own? Attributes go by host name, and would else be those of all nodes."""
        return bool(self.attributes)

    @property
    def needs_shim(self) -> bool:
        """Is a class of the shim's among what the RM loads? Its allocator works under the stock scheduler too."""
        return self.scheduler is Scheduler.TREADLE or "io.treadle.shim" in self.overrides.get(ALLOCATOR_KEY, "")

    @property
    def waits_for_lease(self) -> bool:
        """Is the cluster only ready once an engine holds the lease?"""
        return self.scheduler is Scheduler.TREADLE and self.mode == "enforce"


def parse_assignments(texts: list[str], what: str, form: str = "KEY=VALUE") -> dict[str, str]:
    """Read options of a form with `=`.

    Raises:
        ClusterError: one has no `=` or no key, or a key is given twice.
    """
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ClusterError(f"{what} {text!r}: write {form}")
        if key.strip() in pairs:
            raise ClusterError(f"{what} {text!r}: {key.strip()} is given twice; keep one")
        pairs[key.strip()] = value.strip()
    return pairs


def parse_resources(texts: list[str]) -> dict[str, int]:
    """Read `NAME=AMOUNT` options.

    Raises:
        ClusterError: one is not of that form.
    """
    amounts = parse_assignments(texts, "resource", "NAME=AMOUNT")
    for name, text in amounts.items():
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise ClusterError(f"resource {name}={text}: the amount must be a whole number, as in gpu=4")
    return {name: int(text) for name, text in amounts.items()}


CHECKOUT: Final = Path(__file__).resolve().parents[3]


def checkout() -> Path | None:
    """Return the source checkout that this package runs from, or None if it was copied elsewhere."""
    return CHECKOUT if (CHECKOUT / "java-shim" / "pom.xml").is_file() else None


def build_folder() -> Path:
    """Where clusters, runtimes and results go by default: the checkout's `build`."""
    return CHECKOUT / "build"


RUNTIME_POM: Final = CHECKOUT / "java-shim" / "runtime" / "pom.xml"
"""The Maven file that lists the Hadoop runtime."""


def java_home() -> Path:
    """Return the JDK or JRE to run Hadoop with: JAVA_HOME, else that of the `java` on the PATH.

    Raises:
        ClusterError: there is none.
    """
    configured = os.environ.get("JAVA_HOME")
    if configured:
        if not (Path(configured) / "bin" / "java").is_file():
            raise ClusterError(
                f"JAVA_HOME is {configured}, but {configured}/bin/java does not exist; correct or unset it"
            )
        return Path(configured)
    java = shutil.which("java")
    if java is None:
        raise ClusterError("no `java` on the PATH; install a JDK 17 (Debian: apt-get install openjdk-17-jdk-headless)")
    return Path(java).resolve().parents[1]


def treadle_command() -> Path:
    """Return the `treadle` executable that belongs to the running Python, which the RM starts its sidecar with.

    Raises:
        ClusterError: it is not there.
    """
    beside = Path(sys.executable).parent / "treadle"
    if beside.is_file():
        return beside
    found = shutil.which("treadle")
    if found is None:
        raise ClusterError(f"no `treadle` command next to {sys.executable} nor on the PATH; install the package there")
    return Path(found)


COMPLETE = ".complete"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def runtime_folder(pom: Path | None = None, cache: Path | None = None) -> Path:
    """Where the runtime that `pom` lists is kept (whether or not it has been gathered).

    Args:
        pom: the Maven file; by default the project's.
        cache: the folder that holds runtimes; by default `runtime` in the build folder.
    """
    chosen = pom or RUNTIME_POM
    digest = hashlib.sha256(chosen.read_bytes()).hexdigest()[:16]
    return (cache or build_folder() / "runtime") / digest


def gather(say: Callable[[str], None] = lambda _: None, pom: Path | None = None, cache: Path | None = None) -> Path:
    """Return the folder with the runtime's jars; Maven fetches them if they are not there yet.

    An interrupted or failed attempt leaves nothing that a later one could mistake for a runtime, and two at a time do
    not disturb each other.

    Args:
        say: called with a line about each step that takes a while.
        pom: see `runtime_folder`.
        cache: see `runtime_folder`.

    Raises:
        ClusterError: Maven is missing or fails.
    """
    chosen = pom or RUNTIME_POM
    folder = runtime_folder(chosen, cache)
    if not (folder / COMPLETE).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.parent / f".{folder.name}.lock"):
            if not (folder / COMPLETE).is_file():
                say("gathering the Hadoop runtime (some 210 jars, once)")
                _fetch(chosen, folder)
    return folder / "lib"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(pom: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ClusterError("Maven is missing, which fetches the Hadoop runtime (Debian: apt-get install maven)")
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        # Maven writes into the pom's folder, so use a copy
        copy = Path(work) / "pom.xml"
        shutil.copy(pom, copy)
        command = [maven, "-B", "-ntp", "-q", "-f", str(copy), PLUGIN, "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={work}/runtime/lib"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line][:6]
            raise ClusterError("Maven could not gather the Hadoop runtime:\n" + "\n".join(lines))
        built = Path(work) / "runtime"
        (built / COMPLETE).touch()
        built.rename(folder)

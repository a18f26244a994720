"""A check's findings, and the checks of Hadoop's settings and of files.

They cover the scheduler, Treadle's keys, features that enforce refuses, the jar, Java, the owners of the files that the
sidecar reads and runs, and the readers of its secret.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from treadle import __version__
from treadle.admin.plan import CLASS, CLASS_KEY, DEFAULT_PREFIX, PREFIX, installed_user, settings_in
from treadle.admin.site_files import read_site, settings_of
from treadle.config.parts import DEFAULTS
from treadle.config.reader import check_settings
from treadle.config.trust import EXPLAIN_SOCKET, reason_against, state_folders, trusted_owners, user_name
from treadle.config.yaml_nodes import YamlDocument
from treadle.config.yaml_nodes import text_of as yaml_text
from treadle.errors import ConfigError, UserError, nearest
from treadle.files import read_regular
from treadle.shipped import shim_jar
from treadle.yarn.pages import addresses, expanded

SCRIPT_BYTES_MAX: Final = 1 << 20
"""So much is looked at of a script of Hadoop's."""

TROUBLE_REMEDY: Final = "put that file right, or name another folder with --hadoop-conf"

Status = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has found."""

    status: Status
    text: str
    remedy: str = ""
    """The remedy; for ok and skipped findings the information needed to know more, or nothing."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, and the function that returns its findings."""

    name: str
    group: str
    run: Callable[[Facts], Iterator[Finding]]
    needs_rm: bool = False
    """Has it nothing to say before a ResourceManager runs with Treadle?"""


@dataclass(slots=True)
class Facts:
    """Sources of the checks' facts; each fact is looked up once."""

    conf: Path | None = None
    rms: tuple[str, ...] = ()
    """Addresses given; else by the settings."""
    prefix: Path = DEFAULT_PREFIX
    ca: Path | None = None
    user_given: str = ""
    yarn: str | None = None
    """Hadoop's command."""
    java_given: Path | None = None
    site_trouble: str = field(default="", init=False)
    """Why yarn-site.xml could not be read, once `settings` has been asked for."""
    queues_trouble: str = field(default="", init=False)
    """Why capacity-scheduler.xml could not."""
    queried: bool = field(default=False, init=False)
    """Has anybody asked for the settings since this was set to False?"""
    unreached_shown: bool = field(default=False, init=False)
    """Has a check shown which ResourceManagers do not answer?"""
    _settings: dict[str, str] | None = field(default=None, init=False)

    def setting(self, key: str) -> str:
        """Return the value of a key in yarn-site.xml or capacity-scheduler.xml; empty if it is not set."""
        return expanded(lambda name: self.settings.get(name, ""))(key)

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the ResourceManager's folder; none if there is no folder, or it cannot be read."""
        self.queried = True
        if self._settings is not None:
            return self._settings
        self._settings = {}
        if self.conf is None:
            return self._settings
        try:
            self._settings |= {name: each.value for name, each in settings_in(self.conf).items()}
        except UserError as error:
            self.site_trouble = str(error)
        queues = self.conf / "capacity-scheduler.xml"
        try:
            if os.path.lexists(queues):
                self._settings |= {name: each.value for name, each in settings_of(read_site(queues)).items()}
        except UserError as error:
            self.queues_trouble = str(error)
        return self._settings

    @property
    def trouble(self) -> str:
        """Why settings could not be read; empty if they were."""
        return "; ".join(filter(None, (self.site_trouble, self.queues_trouble)))

    def addresses(self) -> dict[str, str]:
        """Return the addresses of the ResourceManagers' pages, by their id."""
        if self.rms:
            return {"" if len(self.rms) == 1 else str(number): rm for number, rm in enumerate(self.rms, 1)}
        return addresses(lambda key: self.settings.get(key, ""))

    @property
    def config(self) -> Path | None:
        """The engine's treadle.yaml, if one is set."""
        named = self.setting("yarn.scheduler.treadle.config.file")
        return Path(named) if named else None

    @property
    def known_user(self) -> str:
        """The sidecar's user: the one given, that of the settings or that of `treadle install`; empty if unknown."""
        return self.user_given or self.setting("yarn.scheduler.treadle.sidecar.user") or installed_user(self.prefix)

    @property
    def user(self) -> str:
        """The sidecar's user; the user of this process if the sidecar's is unknown."""
        return self.known_user or user_name(os.geteuid())

    @property
    def users(self) -> frozenset[int]:
        """Whose processes may be sidecars: root's, this user's and the sidecar's user's."""
        return trusted_owners() | {self.uid}

    @property
    def uid(self) -> int:
        """The number of that user; -1 if this host has none of that name."""
        known = self.known_user
        try:
            return pwd.getpwnam(known).pw_uid if known else os.geteuid()
        except KeyError:
            return -1


def set_in_scripts(conf: Path | None, name: str) -> tuple[str, str]:
    """Return a variable's value in Hadoop's scripts of settings, and the script that sets it; empty texts if none does.

    A value with variables in it is left out.

    Raises:
        OSError: a script cannot be read.
    """
    line = re.compile(rf"^\s*(?:export\s+)?{name}=([\"']?)([^\s\"'$;#]+)\1\s*(?:[;#].*)?$", re.MULTILINE)
    for script in ("yarn-env.sh", "hadoop-env.sh"):
        values = line.findall(text_of(conf / script)) if conf is not None else []
        if values:
            return values[-1][1], script
    return "", ""


def text_of(path: Path) -> str:
    """Return a script's text; empty if there is none.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return read_regular(path, SCRIPT_BYTES_MAX).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def mode_of(path: Path) -> str:
    """Return a file's mode as chmod writes it."""
    return f"{path.stat().st_mode & 0o7777:04o}"


def may_write(path: Path, uid: int) -> bool:
    """May a user write to a folder, by its owner and mode? Groups are ignored: none should be needed."""
    status = path.stat()
    if uid == 0:
        return True
    return bool(status.st_mode & (0o200 if status.st_uid == uid else 0o002))


NUMBERS: Final = {
    "lease-ms": (100, 600_000),
    "starvation-ms": (0, 86_400_000),
    "starvation-hold-ms": (0, 86_400_000),
    "sidecar.start-timeout-ms": (100, 3_600_000),
    "frame.max-bytes": (64 << 10, 256 << 20),
    "proposals.max": (1, 1_000_000),
    "batch.size": (1, 4096),
    "node-stale-ms": (0, 3_600_000),
}
"""The least and the most of each number; of `tick-ms` the most is a quarter of the lease."""
KEYS: Final = (
    *NUMBERS,
    "mode",
    "tick-ms",
    "sidecar",
    "python.command",
    "config.file",
    "sidecar.log-file",
    "sidecar.connection-file",
    "sidecar.user",
    "engine.class",
)
_LEASE_MS: Final = 2000
SIDECARS: Final = ("managed", "external")
MODES: Final = ("off", "observe_only", "enforce")

_NO_CONF: Final = "give the ResourceManager's folder with --hadoop-conf"
_REFUSED: Final = "correct it, or remove it for the default; a ResourceManager that starts with it is in mode off"
_CAPACITY: Final = "yarn.scheduler.capacity."
_MONITORS: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity."
_HARMLESS: Final = {
    f"{_MONITORS}{name}"
    for name in (
        "QueueConfigurationAutoRefreshPolicy",
        "AutoCreatedQueueDeletionPolicy",
        "QueueManagementDynamicEditPolicy",
    )
}
_MONITOR: Final = "yarn.resourcemanager.scheduler.monitor.enable"
_PREEMPTION: Final = "yarn.resourcemanager.monitor.capacity.preemption."
BY_RESERVATIONS: Final = (
    f"{_PREEMPTION}select_based_on_reserved_containers",
    f"{_PREEMPTION}additional_res_balance_based_on_reserved_containers",
    f"{_CAPACITY}ordering-policy.priority-utilization.underutilized-preemption.enabled",
)
"""Settings that enable preemption for reserved containers."""
_ORDER: Final = re.compile(re.escape(f"{_CAPACITY}root") + r"(\..+)?\.ordering-policy")
_ORDERS: Final = ("fifo", "fair", "fifo-with-partitions", "utilization", "priority-utilization")
"""Policies for applications in a leaf, and for queues in a parent."""
_SCHEDULER: Final = f"{CLASS.replace('.', '/')}.class"
_SELF_CHECK: Final = "io.treadle.shim.SelfCheck"
_TIMEOUT_S: Final = 120.0


def settings(facts: Facts) -> Iterator[Finding]:
    """Look at the scheduler's class and Treadle's own keys."""
    if facts.conf is None:
        yield Finding("skipped", "Hadoop's settings are not known", _NO_CONF)
        return
    known = facts.settings
    for trouble in (facts.site_trouble, facts.queues_trouble):
        if trouble:
            yield Finding("fail", trouble, TROUBLE_REMEDY)
    if facts.site_trouble:
        return
    scheduler = facts.setting(CLASS_KEY)
    if scheduler == CLASS:
        yield Finding("ok", "the scheduler is Treadle's")
    elif scheduler in {"", CLASS.replace("Treadle", "Capacity")}:
        yield Finding("warn", "the scheduler is the CapacityScheduler: Treadle is not installed", "treadle install")
    else:
        yield Finding("fail", f"{CLASS_KEY} is {scheduler}", "Treadle stands in for the CapacityScheduler alone")
    for key in sorted(known):
        name = key.removeprefix(PREFIX)
        if key.startswith(PREFIX) and name not in KEYS:
            yield Finding(
                "warn", f"{key} is not a key of Treadle and has no effect", f"correct it{nearest(name, KEYS)}"
            )
    yield from _refused_values(facts)
    if facts.setting(f"{PREFIX}sidecar") == "external" and not facts.setting(f"{PREFIX}sidecar.connection-file"):
        yield Finding("fail", f"{PREFIX}sidecar is external, and {PREFIX}sidecar.connection-file is not set", "set it")
    command = facts.setting(f"{PREFIX}python.command")
    if command and not os.access(command, os.X_OK) and facts.setting(f"{PREFIX}sidecar") != "external":
        yield Finding("fail", f"{command} is not there, or may not be run", f"correct {PREFIX}python.command")
    yield from _engine_settings(facts)


def _engine_settings(facts: Facts) -> Iterator[Finding]:
    """Check treadle.yaml; code that it names is not run, since its owner may be another user."""
    config = facts.config
    if config is None:
        return
    if not config.is_file():
        yield Finding("fail", f"{config} is not there", f"write it, or unset {PREFIX}config.file")
        return
    from treadle.policy.catalogue import register_parts  # only here: it imports numba

    register_parts()
    try:
        check_settings(config)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield Finding("fail", line, "correct it: no sidecar starts with it (treadle policy check shows more)")
    else:
        yield Finding("ok", f"{config} is a treadle.yaml without mistakes")


def _refused_values(facts: Facts) -> Iterator[Finding]:
    """Look for values that the shim would not start with, by its own bounds."""
    for name, allowed in (("mode", MODES), ("sidecar", SIDECARS)):
        value = facts.setting(f"{PREFIX}{name}").strip()
        if value and value not in allowed:
            yield Finding("fail", f"{PREFIX}{name} is {value}", f"set it to one of {', '.join(allowed)}")
    lease_ms = _number(facts.setting(f"{PREFIX}lease-ms"), _LEASE_MS)
    bounds = {name: (*pair, "") for name, pair in NUMBERS.items()}
    bounds["tick-ms"] = (1, (lease_ms if lease_ms is not None else _LEASE_MS) // 4, " (a quarter of lease-ms)")
    for name, (least, most, why) in bounds.items():
        value = facts.setting(f"{PREFIX}{name}").strip()
        number = _number(value, least)
        if number is None or not least <= number <= most:
            text = f"{PREFIX}{name} is '{value}'; allowed are whole numbers from {least} to {most}{why}"
            yield Finding("fail", text, _REFUSED)
    user = facts.setting(f"{PREFIX}sidecar.user").strip()
    if user and facts.setting(f"{PREFIX}sidecar").strip() in {"", "managed"}:
        text = f"{PREFIX}sidecar.user is '{user}', and a managed sidecar runs as the ResourceManager's user"
        yield Finding("fail", text, f"remove it, or set {PREFIX}sidecar to external")


def _number(text: str, standard: int) -> int | None:
    """Return a whole number as Java reads it; None if it is none."""
    text = text.strip()
    if not text:
        return standard
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None


def features(facts: Facts) -> Iterator[Finding]:
    """Look for features that enforce refuses, by the same rules as the shim."""
    if facts.conf is None:
        yield Finding("skipped", "Hadoop's settings are not known", _NO_CONF)
        return
    findings, unknown = list(_refused(facts)), False
    yield from findings
    if facts.queues_trouble:
        unknown = True
        yield Finding("skipped", f"what queues are set to: {facts.queues_trouble}", TROUBLE_REMEDY)
    trouble = _parts(facts.config)[1]
    if trouble:
        unknown = True
        yield Finding("skipped", f"which policy there is: {trouble}", "treadle policy check shows more")
    if not findings and not unknown:
        yield Finding("ok", "nothing in the settings keeps mode enforce from working")


def _refused(facts: Facts) -> Iterator[Finding]:
    status: Status = "fail" if facts.setting(f"{PREFIX}mode").lower() == "enforce" else "warn"
    for why, remedy in _reasons_against_enforce(facts):
        yield Finding(status, f"enforce is refused: {why}", f"set {remedy}")


def _reasons_against_enforce(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the reasons why enforce is refused, and the setting to change for each."""

    def on(key: str) -> bool:
        return facts.setting(key).lower() == "true"

    preempts = on(_MONITOR) and _preempts(facts)
    share, order, gate = _parts(facts.config)[0]
    if preempts and share != DEFAULTS["share"]:
        yield f"preemption works against share {share}", f"{_MONITOR} to false"
    inside = f"{_PREEMPTION}intra-queue-preemption.enabled"
    if preempts and on(inside) and (order != DEFAULTS["order"] or gate != DEFAULTS["gate"]):
        yield f"preemption inside queues works against order {order}, gate {gate}", f"{inside} to false"
    for key in filter(on, BY_RESERVATIONS if preempts else ()):
        yield "preemption starts from reservations, which Treadle does not make", f"{key} to false"
    lazy, several = f"{_CAPACITY}lazy-preemption-enabled", f"{_CAPACITY}multi-node-placement-enabled"
    if on(lazy) and on(_MONITOR):
        yield "lazy preemption kills only where the CapacityScheduler places", f"{lazy} to false"
    if on(several):
        yield "multi-node placement orders nodes by itself", f"{several} to false"
    masters = "yarn.resourcemanager.node-labels.am.allow-non-exclusive-allocation"
    if on(masters) and on("yarn.node-labels.enabled"):
        yield "application masters on lent nodes", f"{masters} to false"
    for key in filter(_ORDER.fullmatch, facts.settings):
        if facts.setting(key).strip() not in _ORDERS:
            order = facts.setting(key)
            yield f"the engine does not follow the order {order}", f"{key} to one of {', '.join(_ORDERS)}"


def _preempts(facts: Facts) -> bool:
    if facts.setting(f"{_PREEMPTION}observe_only").lower() == "true":
        return False
    monitors = {each.strip() for each in facts.setting("yarn.resourcemanager.scheduler.monitor.policies").split(",")}
    monitors.discard("")
    return not monitors or not monitors <= _HARMLESS


def _parts(config: Path | None) -> tuple[tuple[str, str, str], str]:
    """Return the kinds of share, order and gate in a treadle.yaml, and why they are not known, empty if they are."""
    chosen: Any = {}
    trouble = ""
    try:
        if config is not None:
            value = YamlDocument(str(config), yaml_text(config)).value
            chosen = value.get("policy") if isinstance(value, dict) else {}
    except ConfigError as error:
        trouble = " ".join(str(error).split())

    def kind(part: str) -> str:
        value = chosen.get(part) if isinstance(chosen, dict) else None
        return str((value or {}).get("kind", DEFAULTS[part])) if isinstance(value, dict) else DEFAULTS[part]

    return (kind("share"), kind("order"), kind("gate")), trouble


def java(facts: Facts) -> Iterator[Finding]:
    """Check that the ResourceManager's Java can load the shim's class, and its Hadoop has all that the shim needs."""
    try:
        jar = shim_jar()
    except UserError as error:
        yield Finding("fail", str(error))
        return
    named, where = _java(facts)
    if not named:
        yield Finding("skipped", "no Java is found", "set JAVA_HOME, or name the ResourceManager's with --java")
        return
    program = _trusted(named, "--java")
    try:
        output = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("fail", f"{program} -version: {error}", f"it is {where}")
        return
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    runs, needs = int(version[1]) if version else 0, _class_version(jar)
    if not runs:
        yield Finding("warn", f"{program} does not report its version", f"it is {where}")
    elif needs > runs:
        yield Finding("fail", f"Java {runs} is {where}; the jar is for {needs} or newer", "use a newer Java")
    else:
        yield Finding("ok", f"Java {runs} ({where}) loads byte code for Java {needs}")
    yield from _references(facts, program, jar)


def _references(facts: Facts, program: str, jar: Path) -> Iterator[Finding]:
    """Let the shim check its needs of this Hadoop, in a Java process of its own."""
    if facts.yarn is None:
        yield Finding("skipped", "whether this Hadoop has all that the jar needs", "name Hadoop's command with --yarn")
        return
    what, yarn = "whether this Hadoop has all that the jar needs", _trusted(facts.yarn, "--yarn")
    try:
        named = subprocess.run([yarn, "classpath"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if named.returncode != 0:
            output = " ".join((named.stderr or named.stdout).split()) or f"exit code {named.returncode}"
            yield Finding("skipped", f"{what}: `{yarn} classpath` fails: {output}", "name another with --yarn")
            return
        path = f"{named.stdout.strip()}:{jar}"
        done = subprocess.run(
            [program, "-cp", path, _SELF_CHECK], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("skipped", f"{what}: {error}", "name another `yarn` with --yarn")
        return
    last = ((done.stdout or done.stderr).strip().splitlines() or ["it said nothing"])[-1]
    if done.returncode == 0:
        yield Finding("ok", f"this Hadoop has all that the jar needs ({last})")
    else:
        yield Finding("fail", last, "use a release of Hadoop that docs/features.md names, or a newer jar")


def _java(facts: Facts) -> tuple[str, str]:
    """Return the ResourceManager's Java, and the place that sets it; empty texts if none does."""
    if facts.java_given is not None:
        return str(facts.java_given), "named"
    home, script = set_in_scripts(facts.conf, "JAVA_HOME")
    if home:
        return f"{home}/bin/java", f"that of {script}"
    home = os.environ.get("JAVA_HOME", "")
    if home:
        return f"{home}/bin/java", "that of JAVA_HOME"
    return shutil.which("java") or "", "the first in the path"


def _trusted(program: str, option: str) -> str:
    """Return the absolute path of a program that only root and this user may change: it runs with this user's rights.

    Raises:
        UserError: it does not exist, or others may change it.
        OSError: it cannot be examined.
    """
    found_at = shutil.which(program)
    if found_at is None:
        raise UserError(f"{program} is not there, or may not be run; name another with {option}")
    path = Path(found_at).absolute()
    reason = reason_against(path)
    if reason:
        raise UserError(f"{path} is not run: {reason}. Name another with {option}, or run this check as its owner")
    return str(path)


def _class_version(path: Path) -> int:
    """Return the Java version that the shim's scheduler was compiled for."""
    with zipfile.ZipFile(path) as files, files.open(_SCHEDULER) as stream:
        return int.from_bytes(stream.read(8)[6:8], "big") - 44


_NAMED: Final = re.compile(r"/[^\s:'\"=]*treadle-shim[^\s:'\"/]*\.jar")
_REQUIREMENTS: Final = re.compile(r"/[^\s:'\"=]*treadle-requirements[^\s:'\"/]*\.jar")
_RELEASE: Final = "META-INF/maven/io.treadle/treadle-shim/pom.properties"
_ALLOCATOR_KEY: Final = "yarn.scheduler.app-placement-allocator.class"
ALLOCATOR: Final = "io.treadle.shim.constraints.TreadlePlacementAllocator"
_AGAIN: Final = "run the `treadle install` of the release that you want"


NO_JAR: Final = Finding("warn", "no jar of Treadle's is found on the class path", "treadle install")


def jar(facts: Facts) -> Iterator[Finding]:
    """Check that the ResourceManager has one Treadle jar, which exists and is of this release."""
    try:
        shim_jar()
    except UserError as error:
        yield Finding("fail", str(error), "install treadle again, from a wheel that carries the jar")
        return
    script = facts.conf / "yarn-env.sh" if facts.conf is not None else None
    text = text_of(script) if script is not None else ""
    named = list(dict.fromkeys(_in_script(text, _NAMED)))
    beside = _in_hadoop("treadle-shim-*.jar")
    for path in named:
        yield _jar_finding(path, str(script), _AGAIN)
    for path in beside:
        yield _jar_finding(path, "Hadoop's own folder", f"replace it by that of release {__version__}")
    if beside and (named or len(beside) > 1):
        first = named[0] if named else beside[1]
        yield Finding("warn", f"the class path has two jars: {first} and {beside[0]}", f"remove {beside[0]}")
    if not (named or beside):
        yield NO_JAR
    if facts.setting(_ALLOCATOR_KEY) == ALLOCATOR:
        yield from _requirements([*_in_script(text, _REQUIREMENTS), *_in_hadoop("treadle-requirements-*.jar")])


def _requirements(jars: list[Path]) -> Iterator[Finding]:
    """Check that the requirements jar exists: without its class Hadoop silently uses an allocator of its own."""
    if not any(jar.is_file() for jar in jars):
        text = f"{_ALLOCATOR_KEY} is set, and its jar is not on the class path: requirements of nodes are not kept to"
        yield Finding("fail", text, "treadle install, and restart the ResourceManager")


def _in_hadoop(pattern: str) -> list[Path]:
    homes = [os.environ.get("HADOOP_YARN_HOME"), os.environ.get("HADOOP_HOME")]
    globbed = [sorted(Path(home).glob(f"share/hadoop/yarn/lib/{pattern}")) for home in homes if home]
    return list(dict.fromkeys(path for found in globbed for path in found))


def _jar_finding(path: Path, where: str, remedy: str) -> Finding:
    if not path.is_file():
        return Finding("fail", f"{path}, by {where}, is not there", remedy)
    try:
        release = _release(path)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        return Finding("fail", f"{path}, by {where}, is not a jar of Treadle's: {error}", remedy)
    if release != __version__:
        text = f"{path}, by {where}, is of release {release}, and this command of {__version__}"
        return Finding("fail", text, f"{remedy}, or use the `treadle` of release {release}")
    return Finding("ok", f"{path} of release {release}, by {where}")


def _release(path: Path) -> str:
    """Return the release that a jar's properties name; empty if they name none."""
    with zipfile.ZipFile(path) as files:
        lines = files.read(_RELEASE).decode("utf-8", "replace").splitlines()
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("version=")), "")


def _in_script(text: str, jar: re.Pattern[str]) -> Iterator[Path]:
    for line in text.splitlines():
        if not line.lstrip().startswith("#"):
            yield from map(Path, jar.findall(line))


def owners(facts: Facts) -> Iterator[Finding]:
    """Check that no other user can change the code that runs as the sidecar's user."""
    command = facts.setting(f"{PREFIX}python.command")
    looked = 0
    for path in (facts.config, Path(command) if command.startswith("/") else None):
        if path is None or not path.exists():
            continue
        looked += 1
        try:
            reason = reason_against(path, {0, facts.uid})
        except OSError as error:
            reason = f"{path}: {error.strerror}"
        if reason:
            yield Finding("fail", reason, f"any user who may write there can act as {facts.user} on this host")
        elif not _readable(path, facts.uid):
            yield Finding("fail", f"{facts.user} may not read {path}, mode {mode_of(path)}", f"chmod o+r {path}")
        else:
            yield Finding("ok", f"only {' and '.join(sorted({'root', facts.user}))} may change {path}")
    if not looked:
        yield Finding("skipped", "neither a treadle.yaml nor a command is set, or --hadoop-conf is not given")


def connection(facts: Facts) -> Iterator[Finding]:
    """Check the readers of an external sidecar's secret, and the state folder of a managed one."""
    yield from _state(facts)
    if facts.setting(f"{PREFIX}sidecar") != "external":
        yield Finding("ok", "the sidecar is managed: its secret is in no file")
        return
    path = Path(facts.setting(f"{PREFIX}sidecar.connection-file"))
    try:
        status, folder = path.lstat(), path.parent.stat()
    except OSError as error:
        yield Finding("warn", f"{path}: {error.strerror}: no sidecar has written it", "treadle sidecar restart")
        return
    shared = bool(facts.setting(f"{PREFIX}sidecar.user"))
    if not stat.S_ISREG(status.st_mode):
        yield Finding("fail", f"{path} is not a regular file", "name another one in both places")
    elif status.st_mode & (0o037 if shared else 0o077):
        yield Finding(
            "fail",
            f"{path} has mode {mode_of(path)}: others may read the secret",
            f"it must be {'0640' if shared else '0600'}",
        )
    elif status.st_uid != facts.uid:
        yield Finding(
            "fail",
            f"{path} belongs to {user_name(status.st_uid)}, not to {facts.user}",
            f"run the sidecar as {facts.user}, or name its user with --user",
        )
    elif folder.st_mode & 0o022:
        yield Finding("fail", f"{path.parent}: others may put another file there", f"chmod go-w {path.parent}")
    elif folder.st_uid not in {0, facts.uid}:
        yield Finding(
            "warn" if shared else "fail",
            f"{path.parent} belongs to {user_name(folder.st_uid)}, who may put another file there",
            f"give it to root or {facts.user}" + (", or to the ResourceManager's user" if shared else ""),
        )
    else:
        yield Finding("ok", f"{path} has mode {mode_of(path)}, for {facts.user}")


def _state(facts: Facts) -> Iterator[Finding]:
    if facts.config is None:
        return
    folder = state_folders(facts.config, "", ())[0]
    if folder.is_dir():
        reason = reason_against(folder, {0, facts.uid})
        if reason:
            yield Finding("warn", reason, "the sidecar does not believe what it remembers there")
        socket = folder / EXPLAIN_SOCKET
        if socket.exists() and socket.stat().st_mode & 0o077:
            yield Finding("fail", f"{socket} has mode {mode_of(socket)}", f"chmod 600 {socket}")


def _readable(path: Path, uid: int) -> bool:
    status = path.stat()
    return uid in (0, -1) or bool(status.st_mode & (0o400 if status.st_uid == uid else 0o004))

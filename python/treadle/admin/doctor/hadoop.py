"""Checks of Hadoop's settings: the scheduler, Treadle's keys, features that enforce refuses, the jar, Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from treadle.admin.doctor.checks import Facts, Finding
from treadle.admin.host.plan import CLASS, CLASS_KEY
from treadle.admin.host.running import resource_managers
from treadle.admin.jars import shim_jar
from treadle.config.parts import DEFAULTS
from treadle.config.sections import section_values
from treadle.errors import UserError
from treadle.words import nearest

PREFIX: Final = "yarn.scheduler.treadle."
KEYS: Final = (
    "mode",
    "lease-ms",
    "idle-guard-ms",
    "tick-ms",
    "sidecar",
    "python.command",
    "config.file",
    "sidecar.log-file",
    "sidecar.start-timeout-ms",
    "sidecar.connection-file",
    "sidecar.user",
    "frame.max-bytes",
    "reply.max-bytes",
    "proposals.max",
    "batch.size",
    "engine.class",
    "node-stale-ms",
)
MODES: Final = ("off", "observe_only", "enforce")

_NO_CONF: Final = "give the ResourceManager's folder with --hadoop-conf"
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
_SCHEDULER: Final = f"{CLASS.replace('.', '/')}.class"
_SELF_CHECK: Final = "io.treadle.shim.compat.SelfCheck"
_JAVA_HOME: Final = re.compile(r"^\s*(?:export\s+)?JAVA_HOME=[\"']?([^\s\"'$]+)", re.MULTILINE)
_TIMEOUT_S: Final = 120.0


def settings(facts: Facts) -> Iterator[Finding]:
    """Look at the scheduler's class and Treadle's own keys."""
    if not facts.settings:
        yield Finding(
            "fail" if facts.trouble else "skipped", facts.trouble or "Hadoop's settings are not known", _NO_CONF
        )
        return
    scheduler = facts.setting(CLASS_KEY)
    if scheduler == CLASS:
        yield Finding("ok", "the scheduler is Treadle's")
    elif scheduler in {"", CLASS.replace("Treadle", "Capacity")}:
        yield Finding("warn", "the scheduler is the CapacityScheduler: Treadle is not installed", "treadle install")
    else:
        yield Finding("fail", f"{CLASS_KEY} is {scheduler}", "Treadle stands in for the CapacityScheduler alone")
    for key in sorted(facts.settings):
        name = key.removeprefix(PREFIX)
        if key.startswith(PREFIX) and name not in KEYS:
            yield Finding("warn", f"{key} is no key of Treadle's and does nothing", f"correct it{nearest(name, KEYS)}")
    mode = facts.setting(f"{PREFIX}mode") or "observe_only"
    if mode.lower() not in MODES:
        yield Finding("fail", f"{PREFIX}mode is {mode}", f"set it to one of {', '.join(MODES)}")
    if facts.setting(f"{PREFIX}sidecar") == "external" and not facts.setting(f"{PREFIX}sidecar.connection-file"):
        yield Finding("fail", f"{PREFIX}sidecar is external, and {PREFIX}sidecar.connection-file is not set", "set it")
    command = facts.setting(f"{PREFIX}python.command")
    if command and not os.access(command, os.X_OK) and facts.setting(f"{PREFIX}sidecar") != "external":
        yield Finding("fail", f"{command} is not there, or may not be run", f"correct {PREFIX}python.command")
    config = facts.config
    if config is not None and not config.is_file():
        yield Finding("fail", f"{config} is not there", f"write it, or unset {PREFIX}config.file")


def features(facts: Facts) -> Iterator[Finding]:
    """Look for features that enforce refuses, by the same rules as the shim."""
    if not facts.settings:
        yield Finding("skipped", "Hadoop's settings are not known", _NO_CONF)
        return
    found = list(_refused(facts))
    yield from found
    if not found:
        yield Finding("ok", "nothing in the settings keeps mode enforce from working")


def _refused(facts: Facts) -> Iterator[Finding]:
    def on(key: str) -> bool:
        return facts.setting(key).lower() == "true"

    enforces = facts.setting(f"{PREFIX}mode").lower() == "enforce"
    status: Any = "fail" if enforces else "warn"
    preempts = on(_MONITOR) and _preempts(facts)
    share, order, gate = _parts(facts.config)
    if preempts and share != DEFAULTS["share"]:
        yield Finding(status, f"enforce is refused: preemption works against share {share}", f"set {_MONITOR} to false")
    inside = f"{_PREEMPTION}intra-queue-preemption.enabled"
    if preempts and on(inside) and (order != DEFAULTS["order"] or gate != DEFAULTS["gate"]):
        yield Finding(
            status,
            f"enforce is refused: preemption inside queues works against order {order}, gate {gate}",
            f"set {inside} to false",
        )
    lazy, several = f"{_CAPACITY}lazy-preemption-enabled", f"{_CAPACITY}multi-node-placement-enabled"
    if on(lazy) and on(_MONITOR):
        yield Finding(
            status, "enforce is refused: lazy preemption kills only by native placements", f"set {lazy} to false"
        )
    if on(several):
        yield Finding(
            status, "enforce is refused: multi-node placement orders nodes by itself", f"set {several} to false"
        )
    masters = "yarn.resourcemanager.node-labels.am.allow-non-exclusive-allocation"
    if on(masters) and on("yarn.node-labels.enabled"):
        yield Finding(status, "enforce is refused: application masters on lent nodes", f"set {masters} to false")


def _preempts(facts: Facts) -> bool:
    if facts.setting(f"{_PREEMPTION}observe_only").lower() == "true":
        return False
    monitors = {each.strip() for each in facts.setting("yarn.resourcemanager.scheduler.monitor.policies").split(",")}
    monitors.discard("")
    return not monitors or not monitors <= _HARMLESS


def _parts(config: Path | None) -> tuple[str, str, str]:
    """Return the kinds of share, order and gate in a treadle.yaml, without a look at what else it says."""
    chosen: Any = {}
    try:
        if config is not None:
            chosen = section_values(config.read_text("utf-8")).get("policy") or {}
    except (OSError, ValueError, yaml.YAMLError):
        chosen = {}

    def kind(part: str) -> str:
        value = chosen.get(part) if isinstance(chosen, dict) else None
        return str((value or {}).get("kind", DEFAULTS[part])) if isinstance(value, dict) else DEFAULTS[part]

    return kind("share"), kind("order"), kind("gate")


def java(facts: Facts) -> Iterator[Finding]:
    """Look whether the ResourceManager's Java can load the shim's class, and its Hadoop has what that needs."""
    try:
        jar = shim_jar()
    except UserError as error:
        yield Finding("fail", str(error))
        return
    program, where = _java(facts)
    if program is None:
        yield Finding("skipped", "no Java is found", "set JAVA_HOME, or name the ResourceManager's with --java")
        return
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("fail", f"{program} -version: {error}", f"it is {where}")
        return
    runs, needs = _major(said), _class_version(jar)
    if not runs:
        yield Finding("warn", f"{program} does not tell its version", f"it is {where}")
    elif needs > runs:
        yield Finding("fail", f"Java {runs} is {where}; the jar is for {needs} or newer", "use a newer Java")
    else:
        yield Finding("ok", f"Java {runs} ({where}) loads byte code for Java {needs}")
    yield from _references(facts, program, jar)


def _references(facts: Facts, program: str, jar: Path) -> Iterator[Finding]:
    """Let the shim look for all that it needs of this Hadoop, in a Java of its own."""
    if facts.yarn is None:
        yield Finding("skipped", "whether this Hadoop has all that the jar needs", "name Hadoop's command with --yarn")
        return
    try:
        named = subprocess.run(
            [facts.yarn, "classpath"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
        path = f"{named.stdout.strip()}:{jar}"
        done = subprocess.run(
            [program, "-cp", path, _SELF_CHECK], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("skipped", f"whether this Hadoop has all that the jar needs: {error}", "run `yarn classpath`")
        return
    last = ((done.stdout or done.stderr).strip().splitlines() or ["it said nothing"])[-1]
    if done.returncode == 0:
        yield Finding("ok", f"this Hadoop has all that the jar needs ({last})")
    else:
        yield Finding("fail", last, "use a release of Hadoop that docs/administrator.md names, or a newer jar")


def jar(facts: Facts) -> Iterator[Finding]:
    """Look whether the ResourceManager has one jar of Treadle's, of this release."""
    ours = shim_jar().name
    found = [path for process in resource_managers() for path in _treadle_jars(process.cmdline())]
    homes = [os.environ.get("HADOOP_YARN_HOME"), os.environ.get("HADOOP_HOME")]
    beside = [path for home in homes if home for path in Path(home).glob("share/hadoop/yarn/lib/treadle-shim-*.jar")]
    block = facts.conf is not None and "treadle-shim.jar" in _read(facts.conf / "yarn-env.sh")
    if beside and block:
        yield Finding(
            "warn", f"the class path has two jars: that of yarn-env.sh and {beside[0]}", f"remove {beside[0]}"
        )
    elif beside and beside[0].name != ours:
        yield Finding("fail", f"{beside[0]} is of another release than this command", f"replace it by {ours}")
    elif beside or block or found:
        where = found[0] if found else beside[0] if beside else "yarn-env.sh"
        yield Finding("ok", f"on the class path by {where}")
    else:
        yield Finding("warn", "no jar of Treadle's is found on the class path", "treadle install")


def _treadle_jars(words: list[str]) -> Iterator[str]:
    for word in words:
        yield from (part for part in word.split(":") if "treadle-shim" in part and part.endswith(".jar"))


def _java(facts: Facts) -> tuple[str | None, str]:
    if facts.java_given is not None:
        return str(facts.java_given), "named"
    running = [process.cmdline()[0] for process in resource_managers()]
    if running:
        return running[0], "the running ResourceManager's"
    for name in ("yarn-env.sh", "hadoop-env.sh"):
        homes = _JAVA_HOME.findall(_read(facts.conf / name)) if facts.conf is not None else []
        if homes:
            return f"{homes[-1]}/bin/java", f"that of {name}"
    home = os.environ.get("JAVA_HOME")
    return (f"{home}/bin/java", "that of JAVA_HOME") if home else (shutil.which("java"), "the first in the path")


def _major(said: str) -> int:
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _class_version(path: Path) -> int:
    """Return the Java version that the shim's scheduler was compiled for."""
    with zipfile.ZipFile(path) as files, files.open(_SCHEDULER) as stream:
        return int.from_bytes(stream.read(8)[6:8], "big") - 44


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""

"""Runs the checks; those of the host: Python, packages, compiled code, memory.

Checks of ResourceManagers that run: whether they answer, which mode they are in, how leases have been held.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

import treadle
from treadle import __version__
from treadle.admin import hadoop
from treadle.admin.environment import is_intact, needed_distributions, record_in, required
from treadle.admin.hadoop import TROUBLE_REMEDY, Check, Facts, Finding, may_write
from treadle.admin.plan import CLASS, CLASS_KEY, PREFIX, read_manifest
from treadle.admin.sidecars import is_of, sidecars
from treadle.compiled.cache_folder import lasting_folder, reason_against_chosen, reason_against_folder
from treadle.config.reader import read_section
from treadle.config.settings import Kernels
from treadle.errors import ConfigError, UserError, unknown
from treadle.yarn.pages import beans_in, held_in, passing, property_of, read_page

SKEW_WARN_S: Final = 5.0
SKEW_FAIL_S: Final = 300.0
"""Kerberos refuses tickets if two clocks differ by so much."""
FLIPS_PER_HOUR: Final = 6.0

_EVERY: Final = "Hadoop:service=ResourceManager,name=*"
_RUNTIME: Final = "java.lang:type=Runtime"


class Manager:
    """The answers of one ResourceManager about itself."""

    def __init__(self, id_: str, url: str, facts: Facts) -> None:
        """Ask it.

        Raises:
            UserError: it does not answer.
        """
        self.name = f"{id_} at {url}" if id_ else url
        self.url = url
        page = read_page(url, "/jmx", {"qry": _EVERY}, facts.ca)
        self.skew_s = None if page.date_s is None else page.date_s - time.time()
        self.beans = {str(bean.get("name", "")).partition("name=")[2]: bean for bean in beans_in(url, page)}
        self.state = str(self.beans.get("RMInfo", {}).get("State", "")).upper() or "ACTIVE"
        bean = self.beans.get("Treadle")
        self.treadle: dict[str, Any] = {} if bean is None else held_in(url, bean, "Status")


def managers_of(facts: Facts) -> tuple[list[Manager], list[Finding]]:
    """Return the ResourceManagers that answer, and a finding for each other one."""
    managers, failed = [], []
    for id_, url in facts.addresses().items():
        try:
            managers.append(Manager(id_, url, facts))
        except UserError as error:
            failed.append(Finding("fail", str(error), "start the ResourceManager, or name its address with --rm"))
    return managers, failed


def _asked(facts: Facts) -> Generator[Finding, None, list[Manager]]:
    """Return the ResourceManagers that answer; yield once why others do not, even if `reach` was not selected."""
    managers, failed = managers_of(facts)
    if not facts.unreached_shown:
        facts.unreached_shown = True
        yield from failed
    return managers


def reach(facts: Facts) -> Iterator[Finding]:
    """Look whether every ResourceManager answers, and one of them is active."""
    managers = yield from _asked(facts)
    for each in managers:
        yield Finding("ok", f"{each.name} is {each.state.lower()}")
    active = [each for each in managers if each.state == "ACTIVE"]
    if managers and not active:
        moving = any(passing(each.state) for each in managers)
        remedy = "yarn rmadmin -transitionToActive, or look at ZooKeeper"
        yield Finding("fail", "no ResourceManager is active", f"wait a moment; then {remedy}" if moving else remedy)
    if len(active) > 1:
        yield Finding(
            "warn", f"{len(active)} call themselves active", "are these of one cluster? (--rm, --hadoop-conf)"
        )


def modes(facts: Facts) -> Iterator[Finding]:
    """Check the mode of each shim and its complaints."""
    managers = yield from _asked(facts)
    if not managers:
        yield Finding("skipped", "no ResourceManager answers")
    for each in managers:
        if moving := passing(each.state):
            yield Finding("skipped", f"{each.name} is {moving}", "ask again; if it stays so, look at its log")
        elif each.state != "ACTIVE":
            yield from _standby(each, facts)
        elif not each.treadle:
            yield Finding("fail", f"{each.name} runs without Treadle", "treadle install, and restart it")
        else:
            yield from _mode(each)


def _standby(manager: Manager, facts: Facts) -> Iterator[Finding]:
    try:
        scheduler = property_of(manager.url, CLASS_KEY, facts.ca)
        mode = property_of(manager.url, f"{PREFIX}mode", facts.ca) or "observe_only"
        command = property_of(manager.url, f"{PREFIX}python.command", facts.ca)
    except UserError as error:
        yield Finding("warn", str(error), "look at its yarn-site.xml yourself")
        return
    if scheduler != CLASS:
        text = f"{manager.name}, on standby, would run {scheduler or 'the CapacityScheduler'}"
        yield Finding("fail", text, "treadle install on its host too, and restart it")
    else:
        yield Finding("ok", f"{manager.name}, on standby, would run mode {mode} with {command or 'treadle'}")


def _mode(manager: Manager) -> Iterator[Finding]:
    bean, mode = manager.treadle, str(manager.treadle.get("Mode") or "unknown")
    refusal = bean.get("Refusal")
    if refusal:
        yield Finding("fail", f"{manager.name}: mode {mode} is refused: {refusal}", "change what it names")
    elif mode == "enforce" and bean.get("Schedules") != 1:
        yield Finding(
            "fail",
            f"{manager.name}: mode enforce, and the CapacityScheduler places containers",
            "treadle status shows why",
        )
    else:
        yield Finding("ok", f"{manager.name}: mode {mode}, policy {bean.get('Policy') or 'not reported yet'}")
    for name, what in (("LastError", "last error"), ("Warnings", "warning"), ("IgnoredSettings", "without effect")):
        if bean.get(name):
            yield Finding("warn", f"{manager.name}: {what}: {bean[name]}", "docs/watch.md#watch-it")


def clock(facts: Facts) -> Iterator[Finding]:
    """Look how far this host's clock is from those of the ResourceManagers."""
    managers = yield from _asked(facts)
    known = [(each.name, each.skew_s) for each in managers if each.skew_s is not None]
    if not known:
        yield Finding("skipped", "no ResourceManager reports its time")
    for name, skew_s in known:
        text = f"{name}: {abs(skew_s):.0f} s {'ahead' if skew_s > 0 else 'behind'}"
        status: Any = "fail" if abs(skew_s) > SKEW_FAIL_S else "warn" if abs(skew_s) > SKEW_WARN_S else "ok"
        yield Finding(status, text, "" if status == "ok" else "let chrony or ntpd keep the time on both hosts")


def lease(facts: Facts) -> Iterator[Finding]:
    """Look how engines have held their leases since the ResourceManager started."""
    managers = yield from _asked(facts)
    active = [each for each in managers if each.treadle]
    if not active:
        yield Finding("skipped", "no ResourceManager answers that runs with Treadle")
    for each in active:
        hours = _hours(each, facts)
        yield from _lease_of(each, hours)


def _lease_of(manager: Manager, hours: float | None) -> Iterator[Finding]:
    bean = manager.treadle
    flips, starts, failures = (int(bean.get(key, 0)) for key in ("LeaseFlips", "SidecarStarts", "LinkFailures"))
    since = "since it started" if hours is None else f"in {hours:.1f} h"
    text = f"{manager.name}: {flips} flips of the lease, {starts} starts of the sidecar, {failures} failures {since}"
    # the first hour has one for each start of a sidecar
    often = flips > FLIPS_PER_HOUR * max(1.0, hours or 1.0)
    if bean.get("Mode") != "off" and bean.get("LeaseHeld") == 0:
        yield Finding("fail", f"{text}; no engine holds the lease now", "treadle status shows why; the sidecar's log")
    elif often:
        yield Finding("warn", text, "the engine comes and goes: look at the sidecar's log, and at memory")
    else:
        yield Finding("ok", text)
    if bean.get("CaughtExceptions"):
        yield Finding(
            "fail",
            f"{manager.name}: {bean['CaughtExceptions']} exceptions caught in overrides",
            "report it, with --bundle",
        )
    if bean.get("Stalled"):
        yield Finding(
            "fail", f"{manager.name}: the engine places nothing although it could", "look at the policy's gate"
        )


def _hours(manager: Manager, facts: Facts) -> float | None:
    try:
        beans = beans_in(manager.url, read_page(manager.url, "/jmx", {"qry": _RUNTIME}, facts.ca))
        return float(beans[0]["Uptime"]) / 3_600_000
    except (UserError, LookupError, TypeError, ValueError):
        return None


def sidecar(facts: Facts) -> Iterator[Finding]:
    """Look at the sidecars of this host: how many, how large, of which release."""
    urls = facts.addresses().values()
    running = [each for each in sidecars(facts.users) if is_of(each, urls)]
    command = facts.setting(f"{PREFIX}python.command")
    if command and f"/{__version__}/" not in command and "/current/" not in command and str(facts.prefix) in command:
        yield Finding(
            "warn", f"{command} is of another release than this command ({__version__})", "use the `treadle` next to it"
        )
    if not running:
        yield Finding(
            "skipped",
            f"no sidecar of this cluster and of {facts.user} runs here, or this user may not see it",
            "run it on the ResourceManager's host, as root; --user names the sidecar's user",
        )
    for each in running:
        text = f"process {each.pid}, of {each.username()}, {each.memory_info().rss >> 20} MiB"
        if each.status() == psutil.STATUS_STOPPED:
            yield Finding("fail", f"{text}: it is stopped (SIGSTOP) and answers nothing", f"kill -CONT {each.pid}")
        else:
            yield Finding("ok", text)


def jar(facts: Facts) -> Iterator[Finding]:
    """Look for the jar as `hadoop.jar` does; a ResourceManager that runs with Treadle has it, wherever it is."""
    for finding in hadoop.jar(facts):
        having = [each.name for each in managers_of(facts)[0] if each.treadle] if finding == hadoop.NO_JAR else []
        yield Finding("ok", f"{', '.join(having)} runs with a jar of its own class path") if having else finding


PYTHON_MIN: Final = (3, 11)
MEMORY_MB: Final = 2048
"""Memory that should be free before a sidecar starts: for an engine of a large cluster and its compilation."""


def python(_: Facts) -> Iterator[Finding]:
    """Look at the interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        yield Finding("fail", f"Python {version}", "use 3.11 or newer")
    else:
        yield Finding("ok", f"Python {version}, {sys.executable}")


def packages(_: Facts) -> Iterator[Finding]:
    """Check that all packages that the engine imports exist."""
    missing = []
    for name in filter(None, map(required, metadata.distribution("treadle").requires or ())):
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding(
            "fail", f"missing: {', '.join(missing)}", "install treadle again, with pip, into this environment"
        )
    else:
        yield Finding("ok", f"treadle {treadle.__version__}, {len(needed_distributions())} packages")


def installation(facts: Facts) -> Iterator[Finding]:
    """Check that the files written by `treadle install` are unchanged."""
    if not facts.known_user:
        text = f"the sidecar's user is unknown: checks of files and processes go by {facts.user}"
        yield Finding("warn", text, "name the sidecar's user with --user")
    try:
        known = read_manifest(facts.prefix)
    except UserError as error:
        yield Finding("fail", str(error))
        return
    if known is None:
        yield Finding("skipped", f"`treadle install` has put nothing below {facts.prefix}", "--prefix names another")
        return
    folder = facts.prefix / known.release
    if is_intact(folder, record_in(folder)):
        yield Finding("ok", f"release {known.release} in {folder}, for {known.user}")
    else:
        yield Finding("fail", f"{folder} is not as it was installed", "run the same `treadle install` again")
    gone = [str(each.path) for each in known.files.values() if not each.path.exists()]
    if gone:
        yield Finding("warn", f"gone: {', '.join(gone)}", "run the same `treadle install` again")


def kernels(facts: Facts) -> Iterator[Finding]:
    """Look whether the sidecar finds compiled code, and may keep more."""
    from treadle.compiled.functions import folder_name

    def writable(folder: Path) -> bool:
        return facts.uid >= 0 and may_write(folder, facts.uid)

    try:
        chosen = (
            read_section(facts.config, "kernels", Kernels).folder
            if facts.config is not None and facts.config.is_file()
            else ""
        )
    except ConfigError as error:
        yield Finding("fail", str(error), "treadle policy check shows more")
        return
    if chosen:
        folder: Path | None = Path(chosen)
        reason = reason_against_chosen(Path(chosen), facts.uid, writable)
    else:
        folder, reason = lasting_folder(facts.uid, writable)
    if folder is None:
        remedy = "name a folder of that user's in treadle.yaml (kernels.folder)"
        yield Finding(
            "warn", f"{facts.user} has no safe place for compiled code, each start compiles: {reason}", remedy
        )
        return
    kept = folder / folder_name()
    reason = reason or reason_against_folder(kept, facts.uid, writable)
    if reason:
        yield Finding("fail", reason, f"correct this: the sidecar of {facts.user} refuses the folder")
        return
    compiled = sum(1 for _ in kept.rglob("*.nbi"))
    if compiled:
        yield Finding("ok", f"{compiled} compiled functions of this release in {folder}, for {facts.user}")
        return
    warm_up = f"sudo -u {facts.user} treadle sidecar warm-up" + (f" --config {facts.config}" if facts.config else "")
    yield Finding("warn", f"nothing compiled of this release in {folder}: the next start compiles", warm_up)


def memory(_: Facts) -> Iterator[Finding]:
    """Look whether there is room for a sidecar."""
    free = psutil.virtual_memory().available >> 20
    cores = len(os.sched_getaffinity(0))
    text = f"{free} MiB free, {cores} cores"
    if free < MEMORY_MB:
        yield Finding("warn", text, f"leave at least {MEMORY_MB} MiB to a sidecar (docs/running-it.md#sizing)")
    else:
        yield Finding("ok", text)


CHECKS: Final = (
    Check("python", "host", python),
    Check("packages", "host", packages),
    Check("installation", "host", installation),
    Check("kernels", "host", kernels),
    Check("memory", "host", memory),
    Check("settings", "Hadoop", hadoop.settings),
    Check("features", "Hadoop", hadoop.features),
    Check("jar", "Hadoop", jar),
    Check("java", "Hadoop", hadoop.java),
    Check("owners", "files", hadoop.owners),
    Check("connection", "files", hadoop.connection),
    Check("reach", "ResourceManagers", reach, needs_rm=True),
    Check("modes", "ResourceManagers", modes, needs_rm=True),
    Check("clock", "ResourceManagers", clock, needs_rm=True),
    Check("lease", "ResourceManagers", lease, needs_rm=True),
    Check("sidecar", "ResourceManagers", sidecar, needs_rm=True),
)


class Result(NamedTuple):
    """A finding of a check."""

    check: Check
    finding: Finding

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"group": self.check.group, "check": self.check.name, **asdict(self.finding)}


def chosen_checks(only: Sequence[str], *, pre: bool) -> list[Check]:
    """Return the checks to run; before an installation those that need a ResourceManager are left out.

    Raises:
        UserError: a name is not one of them.
    """
    names = [check.name for check in CHECKS]
    for name in only:
        if name not in names:
            raise UserError(f"--only {unknown(name, names)}")
    if only:
        return [check for check in CHECKS if check.name in only]
    return [check for check in CHECKS if not (pre and check.needs_rm)]


def examine(facts: Facts, checks: Sequence[Check]) -> Iterator[Result]:
    """Yield the findings of the checks; a check that fails is a finding too, and the others go on."""
    for check in checks:
        facts.queried = False
        findings = list(_found(check, facts))
        if facts.queried and facts.site_trouble and check.name != "settings":
            # Settings could not be read, so findings based on them cannot be "ok".
            findings = [each for each in findings if each.status != "ok"]
            findings.append(Finding("skipped", f"unknown: {facts.site_trouble}", TROUBLE_REMEDY))
        yield from (Result(check, each) for each in findings)


def _found(check: Check, facts: Facts) -> Iterator[Finding]:
    try:
        yield from check.run(facts)
    except UserError as error:
        yield Finding("fail", str(error))
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        yield Finding("fail", f"{name}{error.strerror or error}", "run it as root, or as a user who may read that")
    except Exception as error:
        text = f"the check itself failed: {type(error).__name__}: {error}"
        yield Finding("fail", text, "report it, with what you see here")

"""Checks of ResourceManagers that run: whether they answer, which mode they are in, how leases have been held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from treadle import __version__
from treadle.admin.doctor.checks import Facts, Finding
from treadle.admin.doctor.hadoop import PREFIX
from treadle.admin.host.plan import CLASS, CLASS_KEY
from treadle.admin.host.running import is_of, sidecars
from treadle.errors import UserError
from treadle.yarn.pages import beans_in, passing, property_of, read_page

SKEW_WARN_S: Final = 5.0
SKEW_FAIL_S: Final = 300.0
"""With so much between two clocks Kerberos refuses tickets."""
FLIPS_PER_HOUR: Final = 6.0

_EVERY: Final = "Hadoop:service=ResourceManager,name=*"
_RUNTIME: Final = "java.lang:type=Runtime"


class Manager:
    """What one ResourceManager says of itself."""

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
        self.treadle: dict[str, Any] = self.beans.get("Treadle", {})


def managers_of(facts: Facts) -> tuple[list[Manager], list[Finding]]:
    """Return the ResourceManagers that answer, and a finding for each other one."""
    found, failed = [], []
    for id_, url in facts.addresses().items():
        try:
            found.append(Manager(id_, url, facts))
        except UserError as error:
            failed.append(Finding("fail", str(error), "start the ResourceManager, or name its address with --rm"))
    return found, failed


def _unreached(failed: list[Finding], facts: Facts) -> Iterator[Finding]:
    """Yield what keeps ResourceManagers from being looked at, once: also where `reach` itself was not asked for."""
    if not facts.unreached_shown:
        facts.unreached_shown = True
        yield from failed


def reach(facts: Facts) -> Iterator[Finding]:
    """Look whether every ResourceManager answers, and one of them is active."""
    found, failed = managers_of(facts)
    yield from _unreached(failed, facts)
    for each in found:
        yield Finding("ok", f"{each.name} is {each.state.lower()}")
    active = [each for each in found if each.state == "ACTIVE"]
    if found and not active:
        moving = any(passing(each.state) for each in found)
        remedy = "yarn rmadmin -transitionToActive, or look at ZooKeeper"
        yield Finding("fail", "no ResourceManager is active", f"wait a moment; then {remedy}" if moving else remedy)
    if len(active) > 1:
        yield Finding(
            "warn", f"{len(active)} call themselves active", "are these of one cluster? (--rm, --hadoop-conf)"
        )


def modes(facts: Facts) -> Iterator[Finding]:
    """Look at the mode of each shim, and what it complains of."""
    found, failed = managers_of(facts)
    yield from _unreached(failed, facts)
    if not found:
        yield Finding("skipped", "no ResourceManager answers")
    for each in found:
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
            "fail", f"{manager.name}: mode enforce, and the stock scheduler schedules", "treadle status shows why"
        )
    else:
        yield Finding("ok", f"{manager.name}: mode {mode}, policy {bean.get('Policy') or 'not reported yet'}")
    for name, what in (("LastError", "last error"), ("Warnings", "warning"), ("IgnoredSettings", "without effect")):
        if bean.get(name):
            yield Finding("warn", f"{manager.name}: {what}: {bean[name]}", "docs/watch.md#watch-it")


def clock(facts: Facts) -> Iterator[Finding]:
    """Look how far this host's clock is from those of the ResourceManagers."""
    found, failed = managers_of(facts)
    yield from _unreached(failed, facts)
    known = [(each.name, each.skew_s) for each in found if each.skew_s is not None]
    if not known:
        yield Finding("skipped", "no ResourceManager reports its time")
    for name, skew_s in known:
        said = f"{name}: {abs(skew_s):.0f} s {'ahead' if skew_s > 0 else 'behind'}"
        status: Any = "fail" if abs(skew_s) > SKEW_FAIL_S else "warn" if abs(skew_s) > SKEW_WARN_S else "ok"
        yield Finding(status, said, "" if status == "ok" else "let chrony or ntpd keep the time on both hosts")


def lease(facts: Facts) -> Iterator[Finding]:
    """Look how engines have held their leases since the ResourceManager started."""
    found, failed = managers_of(facts)
    yield from _unreached(failed, facts)
    active = [each for each in found if each.treadle]
    if not active:
        yield Finding("skipped", "no ResourceManager answers that runs with Treadle")
    for each in active:
        hours = _hours(each, facts)
        yield from _lease_of(each, hours)


def _lease_of(manager: Manager, hours: float | None) -> Iterator[Finding]:
    bean = manager.treadle
    flips, starts, failures = (int(bean.get(key, 0)) for key in ("LeaseFlips", "SidecarStarts", "LinkFailures"))
    since = "since it started" if hours is None else f"in {hours:.1f} h"
    said = f"{manager.name}: {flips} flips of the lease, {starts} starts of the sidecar, {failures} failures {since}"
    # the first hour has one for each start of a sidecar
    often = flips > FLIPS_PER_HOUR * max(1.0, hours or 1.0)
    if bean.get("Mode") != "off" and bean.get("LeaseHeld") == 0:
        yield Finding("fail", f"{said}; no engine holds the lease now", "treadle status shows why; the sidecar's log")
    elif often:
        yield Finding("warn", said, "the engine comes and goes: look at the sidecar's log, and at memory")
    else:
        yield Finding("ok", said)
    if bean.get("Escapes"):
        yield Finding(
            "fail", f"{manager.name}: {bean['Escapes']} exceptions caught in overrides", "report it, with --bundle"
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
            "warn", f"{command} is of another release than this command ({__version__})", "use the `treadle` beside it"
        )
    if not running:
        yield Finding(
            "skipped",
            f"no sidecar of this cluster and of {facts.user} runs here, or this user may not see it",
            "run it on the ResourceManager's host, as root; --user names the sidecar's user",
        )
    for each in running:
        yield Finding("ok", f"process {each.pid}, of {each.username()}, {each.memory_info().rss >> 20} MiB")

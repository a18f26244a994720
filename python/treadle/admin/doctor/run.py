"""Runs the checks; those of the host: Python, packages, compiled code, memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

import treadle
from treadle.admin.doctor import hadoop, managers
from treadle.admin.doctor.checks import TROUBLE_REMEDY, Check, Facts, Finding, may_write
from treadle.admin.host.environment import is_intact, needed_distributions, record_in
from treadle.compiled.cache_folder import lasting_folder, reason_against_chosen, reason_against_folder
from treadle.config.errors import ConfigError, unknown
from treadle.config.reader import read_kernels
from treadle.errors import UserError

PYTHON_MIN: Final = (3, 11)
MEMORY_MB: Final = 2048
"""So much should be free before a sidecar starts: an engine of a large cluster, and what it compiles."""


def python(_: Facts) -> Iterator[Finding]:
    """Look at the interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        yield Finding("fail", f"Python {version}", "use 3.11 or newer")
    else:
        yield Finding("ok", f"Python {version}, {sys.executable}")


def packages(_: Facts) -> Iterator[Finding]:
    """Look whether all is there that the engine imports."""
    missing = []
    for line in metadata.distribution("treadle").requires or ():
        if "extra ==" not in line:
            name = line.partition(">")[0].partition("=")[0].partition("<")[0].strip()
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
    """Look whether what `treadle install` wrote is as it wrote it."""
    if not facts.known_user:
        text = f"the sidecar's user is unknown: checks of files and processes go by {facts.user}"
        yield Finding("warn", text, "name the sidecar's user with --user")
    try:
        known = facts.manifest()
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
        chosen = read_kernels(facts.config).folder if facts.config is not None and facts.config.is_file() else ""
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
    found = sum(1 for _ in kept.rglob("*.nbi"))
    if found:
        yield Finding("ok", f"{found} compiled functions of this release in {folder}, for {facts.user}")
        return
    warm_up = f"sudo -u {facts.user} treadle sidecar --warm-up" + (f" --config {facts.config}" if facts.config else "")
    yield Finding("warn", f"nothing compiled of this release in {folder}: the next start compiles", warm_up)


def memory(_: Facts) -> Iterator[Finding]:
    """Look whether there is room for a sidecar."""
    free = psutil.virtual_memory().available >> 20
    cores = len(os.sched_getaffinity(0))
    said = f"{free} MiB free, {cores} cores"
    if free < MEMORY_MB:
        yield Finding("warn", said, f"leave at least {MEMORY_MB} MiB to a sidecar (docs/running-it.md#sizing)")
    else:
        yield Finding("ok", said)


CHECKS: Final = (
    Check("python", "host", python),
    Check("packages", "host", packages),
    Check("installation", "host", installation),
    Check("kernels", "host", kernels),
    Check("memory", "host", memory),
    Check("settings", "Hadoop", hadoop.settings),
    Check("features", "Hadoop", hadoop.features),
    Check("jar", "Hadoop", hadoop.jar),
    Check("java", "Hadoop", hadoop.java),
    Check("owners", "files", hadoop.owners),
    Check("connection", "files", hadoop.connection),
    Check("reach", "ResourceManagers", managers.reach, asks_rm=True),
    Check("modes", "ResourceManagers", managers.modes, asks_rm=True),
    Check("clock", "ResourceManagers", managers.clock, asks_rm=True),
    Check("lease", "ResourceManagers", managers.lease, asks_rm=True),
    Check("sidecar", "ResourceManagers", managers.sidecar, asks_rm=True),
)


class Result(NamedTuple):
    """A finding of a check."""

    check: Check
    finding: Finding

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        finding = self.finding
        return {
            "group": self.check.group,
            "check": self.check.name,
            "status": finding.status,
            "text": finding.text,
            "remedy": finding.remedy,
        }


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
    return [check for check in CHECKS if not (pre and check.asks_rm)]


def examine(facts: Facts, checks: Sequence[Check]) -> Iterator[Result]:
    """Yield what the checks find; one that fails itself is a finding too, and the others go on."""
    for check in checks:
        facts.were_asked = False
        found = list(_found(check, facts))
        if facts.were_asked and facts.site_trouble and check.name != "settings":
            # What was judged by settings that nobody could read is not well.
            found = [each for each in found if each.status != "ok"]
            found.append(Finding("skipped", f"unknown: {facts.site_trouble}", TROUBLE_REMEDY))
        yield from (Result(check, each) for each in found)


def _found(check: Check, facts: Facts) -> Iterator[Finding]:
    try:
        yield from check.look(facts)
    except UserError as error:
        yield Finding("fail", str(error))
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        yield Finding("fail", f"{name}{error.strerror or error}", "run it as root, or as a user who may read that")
    except Exception as error:
        text = f"the check itself failed: {type(error).__name__}: {error}"
        yield Finding("fail", text, "report it, with what you see here")

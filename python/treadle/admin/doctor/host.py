"""Checks of the host: Python, packages, compiled code, memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

import psutil

import treadle
from treadle.admin.doctor.checks import Facts, Finding, may_write
from treadle.admin.host.environment import is_intact, needed_distributions, record_in
from treadle.compiled.cache_folder import lasting_folder, reason_against_chosen, reason_against_folder
from treadle.config.errors import ConfigError
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

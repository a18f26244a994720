"""Taking an installation back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from treadle.admin.host.environment import RECORD
from treadle.admin.host.install import STAGING, locked
from treadle.admin.host.manifest import (
    NAME,
    FileRecord,
    Manifest,
    content_of,
    put,
    read_manifest,
    remove_folders,
    sha256,
)
from treadle.admin.host.plan import FileChange
from treadle.admin.host.site_files import take_back, without_jar
from treadle.config.trust import reason_against
from treadle.errors import UserError

Say = Callable[[str], None]


@dataclass(slots=True)
class Restored:
    """What happens to a file."""

    record: FileRecord
    now: bytes | None
    then: bytes | None
    """None: it goes."""
    remarks: list[str] = field(default_factory=list)

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff."""
        if self.now is not None and self.now != self.then:
            record = self.record
            change = FileChange(record.path, record.kind, self.now, self.then or b"", record.replaced, record.added)
            yield from change.diff()


@dataclass(slots=True)
class Removal:
    """All that taking an installation back would do."""

    manifest: Manifest
    files: list[Restored]
    users: list[str]
    """Processes that run from the prefix."""


def plan_removal(prefix: Path, processes: Callable[[Path], list[str]] | None = None) -> Removal:
    """Work out what taking an installation back changes; writes nothing.

    Raises:
        UserError: nothing is installed there, or a file cannot be restored.
    """
    manifest = read_manifest(prefix)
    if manifest is not None and (reason := reason_against(prefix / NAME)):
        raise UserError(f"{reason}. It says which files are written and removed: run this as the user who installed")
    if manifest is None:
        raise UserError(
            f"{prefix} holds no installation of `treadle install`; name its --prefix. What was installed by hand is "
            "taken out by hand (docs/administrator.md#remove-it)"
        )
    files = [_restored(each) for each in manifest.files.values()]
    order = {"site": 0, "env": 1, "own": 2}
    files.sort(key=lambda each: order[each.record.kind])
    for each in files:
        parent = each.record.path.parent
        if each.now != each.then and not os.access(parent, os.W_OK | os.X_OK):
            raise UserError(f"{parent} may not be written by this user; run treadle uninstall as root")
    return Removal(manifest, files, (processes or processes_below)(prefix))


@dataclass(slots=True)
class Outcome:
    """The result of taking an installation back."""

    is_done: bool = False
    """Is nothing left to be done? Else something still runs from the prefix."""
    left: list[Path] = field(default_factory=list)
    """What stays because somebody changed it."""


def remove(plan: Removal, say: Say) -> Outcome:
    """Do what was planned.

    The files that Hadoop reads are restored all or none. While something runs from the prefix the environment stays.

    Raises:
        UserError: a file cannot be written, and those that Hadoop reads are as they were; or they are restored, and
            something of Treadle's own cannot be removed.
    """
    try:
        with locked(plan.manifest.prefix):
            outcome = _remove(plan, say)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; run treadle uninstall as root") from error
    if outcome.is_done:
        _remove_empty(plan.manifest, outcome, say)
    return outcome


def _remove(plan: Removal, say: Say) -> Outcome:
    manifest, outcome = plan.manifest, Outcome()
    outcome.left += [each.record.path for each in plan.files if each.record.kind == "own" and each.then is not None]
    try:
        with ExitStack() as undo:
            for each in plan.files:
                _restore(each, undo, say)
            undo.pop_all()
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; everything is as it was") from error
    for each in plan.files:
        _remove_backups(each, outcome, say)
    try:
        if plan.users:
            manifest.files.clear()
            manifest.save()
        else:
            _remove_made(manifest, say)
            outcome.is_done = True
    except OSError as error:
        raise UserError(
            f"{error.filename}: {error.strerror}. What Hadoop reads is restored; put that right, and run treadle "
            "uninstall again"
        ) from error
    return outcome


def processes_below(prefix: Path) -> list[str]:
    """Return which processes, this one and those that started it aside, run from a prefix: number and name."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in own:
            continue
        with suppress(psutil.Error, OSError):
            if any(f"{prefix}/" in word for word in process.cmdline()):
                found.append(f"{process.pid} ({process.name()}, of {process.username()})")
    return found


def _restored(record: FileRecord) -> Restored:
    now = content_of(record.path)
    if now is None:
        return Restored(record, None, None, [f"{record.path} is gone already"] if record.before else [])
    if record.kind == "own":
        if sha256(now) == record.after:
            return Restored(record, now, None)
        return Restored(record, now, now, [f"{record.path} was edited since: it stays"])
    original = _backup_of(record)
    if original is not None and record.clean and sha256(now) == record.after:
        return Restored(record, now, original)
    if sha256(now) == record.before:
        return Restored(record, now, now)  # an installation was cut off before it wrote, or its end before it was done
    remarks = list[str]()
    if record.kind == "env":
        then: bytes | None = without_jar(now)
    else:
        then, remarks = take_back(record.path, now, record.replaced, record.added)
    if not then and not record.before:
        return Restored(record, now, None)
    if sha256(then) != record.before:
        remarks.insert(0, f"{record.path} was edited since: only Treadle's own lines are taken out")
    return Restored(record, now, then, remarks)


def _backup_of(record: FileRecord) -> bytes | None:
    with suppress(UserError, IndexError):
        kept = content_of(Path(record.backups[0]))
        return kept if sha256(kept) == record.before else None
    return None


def _restore(restored: Restored, undo: ExitStack, say: Say) -> None:
    path, now, then = restored.record.path, restored.now, restored.then
    if content_of(path) != now:
        raise UserError(f"{path} was changed by somebody else meanwhile; try again")
    if now is None or then == now:
        return
    found = path.stat()
    undo.callback(put, path, now, found.st_mode & 0o7777, (found.st_uid, found.st_gid))
    if then is None:
        path.unlink()
        say(f"removed {path}")
    else:
        put(path, then)
        if sha256(then) == restored.record.before:
            say(f"restored {path}, as it was byte for byte")
        else:
            say(f"took Treadle's lines out of {path}")


def _remove_backups(restored: Restored, outcome: Outcome, say: Say) -> None:
    for name in restored.record.backups:
        path = Path(name)
        try:
            if not os.path.lexists(path):
                continue
            if sha256(restored.then) == restored.record.before:
                path.unlink()
                continue
            why = "it is what was there before an installation"
        except OSError as error:
            why = f"it cannot be removed ({error.strerror})"
        outcome.left.append(path)
        say(f"left {path}: {why}")


def _remove_made(manifest: Manifest, say: Say) -> None:
    """Remove what was made below the prefix, and last of all what records it: cut off, it can be done again."""
    prefix = manifest.prefix
    link = prefix / "current"
    if link.is_symlink():
        link.unlink()
    for folder in [prefix / release for release in manifest.releases]:
        if (folder / RECORD).is_file():
            # broken off half-way it would be a folder that nobody knows any more
            going = folder.rename(folder.with_name(f"{STAGING}{folder.name}"))
            shutil.rmtree(going)
            say(f"removed {folder}")
    own = [each for each in manifest.folders if each.name == "kernels" or each.name.startswith(".")]
    for folder in (*own, *prefix.glob(f"{STAGING}*")):
        if folder.is_dir():
            shutil.rmtree(folder)
    (prefix / NAME).unlink()


def _remove_empty(manifest: Manifest, outcome: Outcome, say: Say) -> None:
    kept = {each.path for each in manifest.files.values()}
    for folder in reversed(manifest.folders):
        remove_folders([folder])
        if folder.is_dir():
            outcome.left.append(folder)
            left = ", ".join(sorted(each.name for each in folder.iterdir()))
            say(f"left {folder}: it holds {left}" + (", which was edited" if kept & set(folder.iterdir()) else ""))

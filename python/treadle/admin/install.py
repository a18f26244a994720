"""Carrying an installation out, and taking it back: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final

import psutil

from treadle import __version__
from treadle.admin.environment import (
    RECORD,
    Contents,
    make_environment,
    make_folders,
    refuse_private_python,
    remove_folders,
    running_environment,
    sha256,
)
from treadle.admin.plan import (
    NAME,
    FileChange,
    FileRecord,
    Manifest,
    Options,
    Plan,
    back_up,
    content_of,
    plan_installation,
    put,
    read_manifest,
    record_of,
    refuse_paths,
    user_ids,
)
from treadle.admin.site_files import without_include, without_jar
from treadle.config.trust import reason_against, state_folders
from treadle.errors import UserError
from treadle.files import hold, own_folder

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal has arrived. Not an Exception, so that no handler continues after it."""

    def __init__(self, number: int) -> None:
        """``number`` is the signal's."""
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Signals:
    """Takes the signals of `ENDING` while it is entered; outside the main thread it takes none."""

    def __init__(self) -> None:
        """Take none yet."""
        self._received = 0
        self._at_once = self._settled = False
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Signals:
        """Take them. One that is ignored already, as SIGHUP below nohup, stays so."""
        if threading.current_thread() is threading.main_thread():
            for each in ENDING:
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back to the handlers from before."""
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self._settled:
            self._received = self._received or number
            if self._at_once:
                self.check()

    def check(self) -> None:
        """End the current work if a signal has arrived.

        Raises:
            Stopped: a signal has arrived.
        """
        if self._received and not self._settled:
            self._settled = True
            raise Stopped(self._received)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal end the work inside at any point."""
        self._at_once = True
        try:
            self.check()
            yield
        finally:
            self._at_once = False

    def settle(self) -> None:
        """Ignore signals from now on: the work is complete, or is being rolled back."""
        self._settled = True


STAGING: Final = ".new-"
"""Prefix of the names of folders in which an environment is made."""

_LOCK: Final = ".lock"


@contextmanager
def locked(prefix: Path) -> Iterator[None]:
    """Keep a second installation below a prefix, or its end, out.

    Raises:
        UserError: one is under way.
    """
    path = prefix / _LOCK
    with path.open("a") as file:
        if not hold(file.fileno()):
            raise UserError(f"another installation below {prefix} is under way, or its end; wait for it")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


Say = Callable[[str], None]
WarmUp = Callable[[Plan], None]
MakeContents = Callable[[Path], Contents]

_WARM_UP_S: Final = 1800.0
_OWN_ONLY: Final = 0o700


def plan_of(options: Options, make_contents: MakeContents = running_environment) -> Plan:
    """Return the changes of an installation; writes nothing.

    Raises:
        UserError: the installation is not possible.
    """
    refuse_paths(options)
    uid, _ = user_ids(options.user)
    if os.geteuid() not in (0, uid):
        raise UserError(f"only root may install for another user; run this as root, or as {options.user}")
    refuse_private_python(options.user, uid)
    known = read_manifest(options.prefix)
    if known is not None and known.user not in ("", options.user):
        raise UserError(
            f"{options.prefix} was installed for {known.user}, whose compiled code {options.user} may not use; run "
            f"`treadle uninstall --prefix {options.prefix}` first, or choose another --prefix"
        )
    return plan_installation(options, make_contents(options.target), known)


def carry_out(
    plan: Plan, now: datetime, say: Say, warm_up: WarmUp | None = None, signals: Signals | None = None
) -> None:
    """Execute a plan; if a step fails, everything is rolled back.

    Args:
        plan: the planned changes
        now: the time that backups are named by
        say: called with each step
        warm_up: compiles the engine's kernels
        signals: end it, if they are entered

    Raises:
        UserError: a step failed; all is rolled back, except for changes that the text names.
        Stopped: a signal arrived; all is rolled back.
    """
    prefix, made, leftovers = plan.options.prefix, list[Path](), list[Path]()
    signals = signals or Signals()
    try:
        made = make_folders(prefix)
        with locked(prefix):
            undo = ExitStack()
            try:
                _carry_out(plan, now, say, warm_up or compile_kernels, undo, leftovers, signals)
            except BaseException as error:
                signals.settle()
                _roll_back(undo, error)
                raise
            signals.settle()
            for folder in leftovers:
                shutil.rmtree(folder, ignore_errors=True)
    except BaseException as error:
        remove_folders(made)
        if isinstance(error, OSError):
            name = f"{error.filename}: " if error.filename else ""
            raise UserError(f"{name}{error.strerror or error}; everything is as it was") from error
        if isinstance(error, UserError) and not isinstance(error, _IncompleteRollbackError):
            raise UserError(f"{error}; everything is as it was") from error
        raise


class _IncompleteRollbackError(UserError):
    """An installation failed, and not all of it could be taken back."""


def _roll_back(undo: ExitStack, why: BaseException) -> None:
    """Roll back all changes; if one cannot be rolled back, the others still are.

    Raises:
        UserError: a change could not be rolled back.
    """
    try:
        undo.close()
    except Exception as error:
        raise _IncompleteRollbackError(
            f"the installation failed ({why}), and not all of it could be taken back: {error}. Correct that; "
            "the old content is in NAME.treadle-DATE-TIME next to such a file: copy it back"
        ) from error


def _carry_out(
    plan: Plan, now: datetime, say: Say, warm_up: WarmUp, undo: ExitStack, leftovers: list[Path], signals: Signals
) -> None:
    options = plan.options
    leftovers += options.prefix.glob(f"{STAGING}*")  # of an installation that was killed
    known = read_manifest(options.prefix)
    manifest = known or Manifest(options.prefix)
    manifest.release, manifest.user = __version__, options.user
    manifest.releases = sorted({*manifest.releases, __version__})
    if known is None:
        manifest.folders.append(options.prefix)
    _undo_file(undo, options.prefix / NAME)
    if plan.makes_environment:
        say(f"copying the environment to {options.target}")
        leftovers.append(_place_environment(plan, undo, signals))
    _make_own_folders(plan, manifest, undo)
    for change in (each for each in plan.changes if each.kind == "own"):
        _apply(change, now, manifest, undo, say)
    if plan.makes_environment or plan.makes_kernels:
        say(f"compiling the engine's kernels as {options.user} (a minute or two)")
        with signals.at_once():
            warm_up(plan)
    if plan.links:
        _link(options, undo)
    # yarn-site.xml comes last: all settings of a ResourceManager are in place.
    for change in (each for each in plan.changes if each.kind != "own"):
        signals.check()
        _apply(change, now, manifest, undo, say)
    signals.check()
    manifest.save()


def _place_environment(plan: Plan, undo: ExitStack, signals: Signals) -> Path:
    """Make the environment next to its place and move it there; return a folder to remove after the installation."""
    target = plan.options.target
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=target.parent))
    undo.callback(shutil.rmtree, staging, ignore_errors=True)
    with signals.at_once():
        make_environment(plan.contents, target, staging / "env")
    if target.exists():
        plan.remarks.append(f"{target} was made again: restart the processes that run from it")
        target.rename(staging / "old")
        undo.callback((staging / "old").rename, target)
    (staging / "env").rename(target)
    undo.callback(shutil.rmtree, target, ignore_errors=True)
    return staging


def _make_own_folders(plan: Plan, manifest: Manifest, undo: ExitStack) -> None:
    """Make the folders of compiled code and of treadle.yaml, and the engine's state folder next to treadle.yaml."""
    owner = user_ids(plan.options.user)
    if plan.makes_kernels:
        _make_for(plan.options.kernels, owner, manifest, undo)
    if any(change.path == plan.config for change in plan.changes):
        made = make_folders(plan.config.parent)
        undo.callback(remove_folders, made)
        manifest.folders += made
    if plan.makes_state:
        _make_for(state_folders(plan.config, "", ())[0], owner, manifest, undo)


def _make_for(folder: Path, owner: tuple[int, int], manifest: Manifest, undo: ExitStack) -> None:
    folder.mkdir(mode=_OWN_ONLY)
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    with own_folder(folder, owner):
        pass
    manifest.folders.append(folder)


def _apply(change: FileChange, now: datetime, manifest: Manifest, undo: ExitStack, say: Say) -> None:
    if content_of(change.path) != change.before:
        raise UserError(f"{change.path} was changed by another process meanwhile; try again")
    backup = None
    if change.before is not None and change.kind != "own":
        backup = back_up(change.path, change.before, now)
        undo.callback(_forget, backup, change)
        say(f"kept {change.path} as {backup.name}")
    known = manifest.files.get(change.path)
    manifest.files[change.path] = record_of(change, backup, known)
    manifest.save()  # before the change, so that an interrupted change can be undone
    _undo_file(undo, change.path)
    put(change.path, change.after)
    say(f"wrote {change.path}")


def _forget(backup: Path, change: FileChange) -> None:
    """Remove a copy, unless it is the last one of the original content."""
    if content_of(change.path) == change.before:
        backup.unlink(missing_ok=True)


def _undo_file(undo: ExitStack, path: Path) -> None:
    """Restore a file's current content if a later step fails."""
    before = content_of(path)
    if before is None:
        undo.callback(path.unlink, missing_ok=True)
    else:
        undo.callback(put, path, before)


def _link(options: Options, undo: ExitStack) -> None:
    link = options.prefix / "current"
    before = str(link.readlink()) if link.is_symlink() else None
    _point(link, __version__)
    if before is None:
        undo.callback(link.unlink, missing_ok=True)
    else:
        undo.callback(_point, link, before)


def _point(link: Path, target: str) -> None:
    new = link.with_name(f".{link.name}.new")
    with suppress(FileNotFoundError):
        new.unlink()
    new.symlink_to(target)
    new.replace(link)


def compile_kernels(plan: Plan) -> None:
    """Compile as the sidecar's user, so that its first start is quick.

    Raises:
        UserError: it failed; the text has why.
    """
    options = plan.options
    uid, gid = user_ids(options.user)
    as_user = {} if os.geteuid() == uid else {"user": uid, "group": gid, "extra_groups": []}
    command = [str(options.target / "bin" / "treadle"), "sidecar", "warm-up", "--config", str(plan.config)]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=environment,
            timeout=_WARM_UP_S,
            start_new_session=True,  # the terminal's Ctrl-C is this process's: it ends that one, and tidies up then
            **as_user,  # type: ignore[call-overload]
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{' '.join(command)} did not end within {_WARM_UP_S:.0f} s") from error
    if ended.returncode != 0:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        raise UserError(f"{' '.join(command)}, as {options.user}: {lines[-1] if lines else 'it said nothing'}")


@dataclass(slots=True)
class Restored:
    """The planned change of a file in a removal."""

    record: FileRecord
    now: bytes | None
    then: bytes | None
    """None: it goes."""
    remarks: list[str] = field(default_factory=list)

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff."""
        if self.now is not None and self.now != self.then:
            record = self.record
            yield from FileChange(record.path, record.kind, self.now, self.then or b"").diff()


@dataclass(slots=True)
class Removal:
    """All that taking an installation back would do."""

    manifest: Manifest
    files: list[Restored]
    users: list[str]
    """Processes that run from the prefix."""


def plan_removal(prefix: Path, processes: Callable[[Path], list[str]] | None = None) -> Removal:
    """Return the changes of a removal; writes nothing.

    Raises:
        UserError: no installation exists there, or a file cannot be restored.
    """
    manifest = read_manifest(prefix)
    if manifest is not None and (reason := reason_against(prefix / NAME)):
        raise UserError(f"{reason}. It says which files are written and removed: run this as the user who installed")
    if manifest is None:
        raise UserError(
            f"{prefix} holds no installation of `treadle install`; name its --prefix. Remove by hand an "
            "installation that was made by hand (docs/administrator.md#uninstall)"
        )
    files = [_restored(each) for each in manifest.files.values()]
    order = {"site": 0, "settings": 1, "env": 2, "own": 3}
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
    """Is the removal complete? Otherwise a process still runs from the prefix."""
    left: list[Path] = field(default_factory=list)
    """Files and folders that stay, because they were changed after the installation."""


def remove(plan: Removal, say: Say) -> Outcome:
    """Execute a removal.

    The files that Hadoop reads are restored all or none. While a process runs from the prefix, the environment stays.

    Raises:
        UserError: a file cannot be written, and those that Hadoop reads are unchanged; or they are restored, and
            one of Treadle's own files cannot be removed.
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
    processes = []
    for process in psutil.process_iter():
        if process.pid in own:
            continue
        with suppress(psutil.Error, OSError):
            if any(f"{prefix}/" in word for word in process.cmdline()):
                processes.append(f"{process.pid} ({process.name()}, of {process.username()})")
    return processes


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
    edited = f"{record.path} was edited since: "
    if record.kind == "settings":
        remarks = [] if sha256(now) == record.after else [f"{edited}it goes, for nothing includes it any more"]
        return Restored(record, now, None, remarks)
    then = without_jar(now) if record.kind == "env" else without_include(now)
    if not then and not record.before:
        return Restored(record, now, None)
    remarks = [] if sha256(then) == record.before else [f"{edited}only Treadle's own lines are taken out"]
    return Restored(record, now, then, remarks)


def _backup_of(record: FileRecord) -> bytes | None:
    with suppress(UserError, IndexError):
        kept = content_of(Path(record.backups[0]))
        return kept if sha256(kept) == record.before else None
    return None


def _restore(restored: Restored, undo: ExitStack, say: Say) -> None:
    path, now, then = restored.record.path, restored.now, restored.then
    if content_of(path) != now:
        raise UserError(f"{path} was changed by another process meanwhile; try again")
    if now is None or then == now:
        return
    status = path.stat()
    undo.callback(put, path, now, status.st_mode & 0o7777, (status.st_uid, status.st_gid))
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
    """Remove the files made below the prefix, their manifest last, so that an interrupted removal can be repeated."""
    prefix = manifest.prefix
    link = prefix / "current"
    if link.is_symlink():
        link.unlink()
    for folder in [prefix / release for release in manifest.releases]:
        if (folder / RECORD).is_file():
            # An interrupted removal would otherwise leave a folder that no manifest names.
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

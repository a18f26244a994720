"""Finds histories in files and folders, and reads each by its format, in this process or isolated in another one.

The other process is replaced when it dies, hangs, or exceeds its limits. An import starts it, or connects to one that
is started behind a socket. The second has another user, so that files written by users are not parsed as the user who
owns the store. The user named by a history must own its files; otherwise anyone could write another user's history.
"""

from __future__ import annotations

import json
import os
import pwd
import selectors
import signal
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, Self

from treadle.errors import UserError
from treadle.history.documents import profile_from_json, run_from_json
from treadle.history.frameworks import (
    FOLDER_PREFIX,
    PART_PREFIX,
    codec_of,
    read_jhist,
    read_spark_log,
    read_tez_history,
)
from treadle.history.outcome import (
    BrokenHistoryError,
    Files,
    RefusedError,
    Source,
    UnfinishedError,
    lines,
    mapping,
    open_regular,
)
from treadle.history.profile import JobProfile, JobRun, storable
from treadle.processes import Child, Remote

EXPORT_FORM: Final = "treadle_profiles"
"""The first line of an export is ``{"treadle_profiles": 2}``; a profile per line follows."""

EXPORT_VERSION: Final = 2

EXPORT: Final = "treadle"
BROKEN: Final = "broken"
REFUSED: Final = "refused"
"""Kinds of sources: an export of profiles; an unreadable one; a skipped one."""

SOURCES_MAX: Final = 100_000
"""Maximum number of histories of one import."""
ENTRIES_MAX: Final = 1_000_000
"""Maximum number of files and folders checked in one import."""
DEPTH_MAX: Final = 32
"""Maximum depth of nested folders."""

_BEGINNINGS: Final = (
    (b"Avro-", "jhist"),
    (b'{"Event":"SparkListener', "spark"),
    (b'{"entity"', "tez"),
    (b'{"treadle_profiles"', EXPORT),
    (b"SEQ", "tez-proto"),
)


@dataclass(slots=True)
class SourceContent:
    """The content of a source."""

    runs: list[JobRun] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Jobs in it that have not succeeded."""
    profiles: list[JobProfile] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    """IDs of the files' owners, each with the name of a file."""
    open_to_all: str = ""
    """The name of a file in it that every user may write; empty if there is none."""


def find_sources(paths: Iterable[Path]) -> Iterator[Source]:
    """Yield the histories among files and folders, including subfolders, in the order of their names.

    Explicitly named files are histories of some kind; in folders, other files are skipped. An unreadable file in a
    folder is a source, so that reading reports it. So are skipped ones: links, pipes, exports of profiles, and
    everything beyond `SOURCES_MAX`, `ENTRIES_MAX` and `DEPTH_MAX`.

    Raises:
        UserError: an explicitly named path is missing or unreadable.
    """
    search = _Search()
    for path in paths:
        try:
            # an explicitly named link stands for its target
            real = path.resolve(strict=True)
            if real.is_dir():
                sources = search.folder(real, path, 0)
            else:
                kind, owner = _kind(real)
                sources = iter((Source(kind or "unknown", str(path), real, owner),))
        except (OSError, BrokenHistoryError, RuntimeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UserError(f"{path}: {why}; check the path and its permissions") from error
        for number, source in enumerate(sources):
            search.sources += 1
            if search.sources > SOURCES_MAX:
                why = f"not read: there are more than {SOURCES_MAX} histories; import the rest by itself"
                yield Source(REFUSED, f"{path} from {source.name} on" if number else source.name, path, why=why)
                return
            yield source


def read_source(source: Source, files: Files | None = None) -> SourceContent:
    """Read a source in this process; `reader` isolates this one from hostile files.

    Args:
        source: of a readable kind
        files: opens its files

    Raises:
        BrokenHistoryError: it cannot be read; the text says why.
        UnfinishedError: its job has not succeeded.
        OSError: the file cannot be read.
        UserError: a required library is missing.
    """
    if source.kind in _UNREADABLE:
        raise BrokenHistoryError(_UNREADABLE[source.kind])
    return _READERS[source.kind](source.path, files or Files())


class _Search:
    """One bounded search through folders."""

    def __init__(self) -> None:
        self.sources = 0
        self._entries = 0

    def folder(self, folder: Path, name: Path, depth: int) -> Iterator[Source]:
        """Yield the sources of a folder; ``name`` is its name in errors."""
        if folder.name.startswith(FOLDER_PREFIX):
            yield Source("spark", str(name), folder, folder.stat().st_uid)
            return
        if depth > DEPTH_MAX:
            yield Source(REFUSED, str(name), folder, why=f"not searched: more than {DEPTH_MAX} folders deep")
            return
        entries = []
        with os.scandir(folder) as found:
            for entry in found:
                self._entries += 1
                if self._entries > ENTRIES_MAX:
                    why = f"not searched to the end: more than {ENTRIES_MAX} files and folders"
                    yield Source(REFUSED, str(name), folder, why=why)
                    break
                if not entry.name.startswith("."):
                    entries.append(entry.name)
        for entry_name in sorted(entries):
            yield from self._entry(folder / entry_name, name / entry_name, depth)

    def _entry(self, path: Path, name: Path, depth: int) -> Iterator[Source]:
        try:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                yield from self.folder(path, name, depth + 1)
            elif not stat.S_ISREG(mode):
                what = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
                yield Source(REFUSED, str(name), path, why=f"{what}; name it itself if it is to be read")
            else:
                kind, owner = _kind(path)
                if kind == EXPORT:
                    why = "an export of profiles, which replaces the store's history, is taken in only if"
                    why += " the file itself is named"
                    yield Source(REFUSED, str(name), path, owner, why)
                elif kind:
                    yield Source(kind, str(name), path, owner)
        except BrokenHistoryError as error:  # it was a file a moment before
            yield Source(REFUSED, str(name), path, why=str(error))
        except OSError as error:
            yield Source(BROKEN, str(name), path, why=error.strerror or str(error))


def _kind(path: Path) -> tuple[str, int]:
    """Return a file's kind, by its name and beginning, and its owner; empty if it is not a history."""
    with open_regular(path) as stream:
        owner = os.fstat(stream.fileno()).st_uid
        if path.suffix == ".jhist":
            return "jhist", owner
        if codec_of(path.name):
            return "spark", owner
        if path.name.startswith("history.txt"):
            return "tez", owner
        beginning = stream.read(64)
    return next((kind for start, kind in _BEGINNINGS if beginning.startswith(start)), ""), owner


def _exported(path: Path, files: Files) -> SourceContent:
    content = SourceContent()
    with files.open(path) as stream:
        for at, line in lines(stream):
            try:
                document = json.loads(line)
                if EXPORT_FORM in mapping(document):
                    if document[EXPORT_FORM] != EXPORT_VERSION:
                        raise BrokenHistoryError(f"exported by another version of Treadle ({document[EXPORT_FORM]!r})")
                    continue
                content.profiles.append(profile_from_json(document))
            except (ValueError, RecursionError) as error:
                raise BrokenHistoryError(f"line {at}: {error}") from error
    return content


_READERS: Final[dict[str, Callable[[Path, Files], SourceContent]]] = {
    "jhist": lambda path, files: SourceContent([read_jhist(path, files)]),
    "spark": lambda path, files: SourceContent([read_spark_log(path, files)]),
    "tez": lambda path, files: SourceContent(*read_tez_history(path, files)),
    EXPORT: _exported,
}

_UNREADABLE: Final = {
    "tez-proto": "a SequenceFile, as of Tez's ProtoHistoryLoggingService, is not read; have Tez log by "
    "SimpleHistoryLoggingService",
    "unknown": "no history of MapReduce, Spark or Tez, and no export of profiles",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the process that reads histories: per history, per owner and in total."""

    memory_mb: int = 1536
    """Address space of the process, in MiB."""
    cpu_s: int = 300
    """CPU time per history, in seconds."""
    wall_s: float = 1800.0
    """Time per history, in seconds: disks may be slow."""
    answer_bytes: int = 64 << 20
    """Maximum size of the answer for one history, in bytes."""
    export_bytes: int = 1 << 30
    """Maximum size of the answer for one export of profiles, which may be a whole store's."""
    owner_cpu_s: float = 3600.0
    """CPU time for the histories of one owner, in seconds."""
    all_cpu_s: float = 4 * 3600.0
    """CPU time for all histories of an import, in seconds."""


LIMITS = Limits()


MODULE: Final = "treadle.history.process"
HEADER: Final = struct.Struct(">I")
"""The length before each part of that process's answers."""

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_SECRETS: Final = "TREADLE_"
"""Prefix of environment variables, such as the store's URL, that a process reading hostile files must not receive."""


def check_owner(source: Source, content: SourceContent) -> None:
    """Add the owner of a source's files as seen by this process.

    The process that read them is not sufficient, since a hostile file may have taken it over.
    """
    files = [source.path]
    if source.path.is_dir():
        files = sorted(entry for entry in source.path.iterdir() if entry.name.startswith(PART_PREFIX))
    for path in files:
        seen = path.lstat()
        content.owners.setdefault(seen.st_uid, path.name)
        if seen.st_mode & stat.S_IWOTH:
            content.open_to_all = path.name


def ownership_warning(content: SourceContent, run: JobRun) -> str:
    """Return why the files of a run are not proof for its user; empty if they are."""
    if content.open_to_all:
        return f"every user may write {content.open_to_all}"
    for owner, file in content.owners.items():
        name = name_of(owner)
        if storable(name) != run.key.user:
            return f"{file} is {name}'s, and is of a job of {run.key.user or 'nobody'}"
    return "" if content.owners else "its files are not known"


def export_warning(content: SourceContent) -> str:
    """Return why an export is not trusted: another user than root and the importing one may have written it.

    Empty if it is trusted.
    """
    if content.open_to_all:
        return f"every user may write {content.open_to_all}; copy it to where only you may write"
    for owner, file in content.owners.items():
        if owner not in {0, os.geteuid()}:
            return f"{file} is {name_of(owner)}'s, and an export replaces the store's history; copy it if you trust it"
    return "" if content.owners else "its file is not known"


@cache
def name_of(owner: int) -> str:
    """Return the name of a user, or a placeholder for an unknown ID."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"uid {owner}"


class HistoryReader:
    """Reads one history after another in a process that cannot crash, block or fill this one."""

    def __init__(self, limits: Limits = LIMITS, connect: Callable[[], socket.socket] | None = None) -> None:
        """Set up reading.

        Args:
            limits: limits of the process
            connect: connects to a socket that starts a reading process of another user; it raises `UserError`. Without
                it, a process of this user is started.
        """
        self._limits = limits
        self._connect = connect
        self._process: Child | Remote | None = None
        self._errors: IO[bytes] | None = None
        """Standard error of this user's process."""
        self._cpu_s: dict[int, float] = {}
        """CPU time used so far, by the files' owner."""

    def read(self, source: Source) -> SourceContent:
        """Read a history.

        Raises:
            BrokenHistoryError: it cannot be read; the text says why.
            RefusedError: it is skipped, because of its properties or of earlier histories.
            UnfinishedError: its job has not succeeded.
            UserError: a required library is missing, or the reading process is unreachable.
        """
        if source.kind == REFUSED:
            raise RefusedError(source.why)
        if source.kind == BROKEN:
            raise BrokenHistoryError(source.why)
        if source.kind == EXPORT and self._connect is not None:
            raise RefusedError("an export of profiles is read by a process of your own; import it without --reader")
        self._check_budget(source.owner)
        process = self._process or self._start()
        request = {"kind": source.kind, "name": source.name, "path": os.fsdecode(source.path)}
        began_s = time.monotonic()
        spent_s = 0.0
        try:
            limit = self._limits.export_bytes if source.kind == EXPORT else self._limits.answer_bytes
            content, end = self._exchange(process, source, json.dumps(request).encode() + b"\n", limit)
            spent_s = float(end.get("cpu_s", 0.0))
        except BrokenHistoryError:
            spent_s = min(time.monotonic() - began_s, self._limits.cpu_s)
            self.close()
            raise
        finally:
            self._cpu_s[source.owner] = self._cpu_s.get(source.owner, 0.0) + spent_s
        if not end.get("again"):
            self.close()
        outcome = mapping(end.get("end"))
        for kind, failure in (("broken", BrokenHistoryError), ("unfinished", UnfinishedError), ("missing", UserError)):
            if kind in outcome:
                raise failure(str(outcome[kind]))
        return content

    def close(self) -> None:
        """Stop the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.close()
        if self._errors is not None:
            self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_budget(self, owner: int) -> None:
        for which, used_s, limit_s in (
            ("all histories together", sum(self._cpu_s.values()), self._limits.all_cpu_s),
            ("the histories of its owner", self._cpu_s.get(owner, 0.0), self._limits.owner_cpu_s),
        ):
            if used_s > limit_s:
                raise RefusedError(f"not read: {which} took {limit_s:.0f} s of CPU time; import the rest by itself")

    def _start(self) -> Child | Remote:
        if self._connect is not None:
            self._process = Remote(self._connect())
            return self._process
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)}
        environment["PYTHONPATH"] = str(_PACKAGE)
        # -P: import nothing from the current folder
        command = (sys.executable, "-P", "-m", MODULE, str(self._limits.memory_mb), str(self._limits.cpu_s))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = Child(command, environment, errors=self._errors)
        return self._process

    def _obituary(self, process: Child | Remote) -> str:
        """Return why it has ended."""
        if isinstance(process, Remote) or self._errors is None:
            return "the process that read it has ended; its own log says why (journalctl -u 'treadle-histories@*')"
        status = process.popen.wait()
        if status == -signal.SIGXCPU:
            return f"reading it takes more than {self._limits.cpu_s} s of CPU time"
        if status < 0:
            return f"the process that read it was ended by {signal.Signals(-status).name}"
        self._errors.seek(0)
        last = self._errors.read()[-1000:].strip().rpartition(b"\n")[2]
        return f"the process that read it ended with status {status}: {last.decode('utf-8', 'replace')[:500]}"

    def _exchange(
        self, process: Child | Remote, source: Source, request: bytes, limit: int
    ) -> tuple[SourceContent, dict[str, Any]]:
        content = SourceContent()
        left = limit
        deadline_s = time.monotonic() + self._limits.wall_s
        try:
            process.stdin.write(request)
            process.stdin.flush()
        except (BrokenPipeError, ConnectionResetError):
            raise BrokenHistoryError(self._obituary(process)) from None
        while True:
            (length,) = HEADER.unpack(self._receive(process, HEADER.size, deadline_s))
            left -= length
            if left < 0:
                raise BrokenHistoryError(f"what is in it is more than {limit} bytes")
            try:
                part = json.loads(self._receive(process, length, deadline_s))
                if "end" in part:
                    end = mapping(part["end"])
                    content.owners = {int(owner): str(name) for owner, name in end.get("owners", ())}
                    content.open_to_all = str(end.get("open_to_all", ""))
                    check_owner(source, content)
                    return content, part
                if "run" in part:
                    content.runs.append(run_from_json(part["run"]))
                elif "profile" in part:
                    if source.kind != EXPORT:
                        raise ValueError("a profile in what is not an export")
                    content.profiles.append(profile_from_json(part["profile"]))
                else:
                    content.left_out.append(str(part["left_out"]))
            except (ValueError, TypeError, RecursionError) as error:
                raise BrokenHistoryError(f"its content makes no sense: {error}") from error

    def _receive(self, process: Child | Remote, count: int, deadline_s: float) -> bytes:
        content = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(content) < count:
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    raise BrokenHistoryError(f"reading it took longer than {self._limits.wall_s:.0f} s")
                try:
                    part = os.read(process.stdout.fileno(), min(count - len(content), 1 << 20))
                except ConnectionResetError:
                    part = b""
                if not part:
                    raise BrokenHistoryError(self._obituary(process))
                content += part
        return bytes(content)

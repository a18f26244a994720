"""Finds histories in files and folders, and reads each by its format."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle.history.documents import profile_from_json
from treadle.history.hadoop import read_jhist, read_tez_history
from treadle.history.outcome import BrokenHistoryError, Files, Source, lines, mapping, open_regular
from treadle.history.profile import JobProfile, JobRun
from treadle.history.spark import FOLDER_PREFIX, codec_of, read_spark_log

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

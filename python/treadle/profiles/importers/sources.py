"""Finds histories in files and folders, and reads each by what it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle.profiles.documents import profile_from_json
from treadle.profiles.importers.history import BrokenHistoryError, Source, lines, mapping
from treadle.profiles.importers.jhist import read_jhist
from treadle.profiles.importers.spark import read_spark_log
from treadle.profiles.importers.spark_log import CODECS, FOLDER_PREFIX
from treadle.profiles.importers.tez import read_tez_history
from treadle.profiles.profile import JobProfile
from treadle.profiles.run import JobRun

EXPORT_FORM: Final = "treadle_profiles"
"""The first line of an export is ``{"treadle_profiles": 1}``; a profile a line follows."""

EXPORT_VERSION: Final = 1

_BEGINNINGS: Final = (
    (b"Avro-", "jhist"),
    (b'{"Event":"SparkListener', "spark"),
    (b'{"entity"', "tez"),
    (b'{"treadle_profiles"', "treadle"),
    (b"SEQ", "tez-proto"),
)


@dataclass(slots=True)
class Found:
    """What a source gave."""

    runs: list[JobRun] = field(default_factory=list)
    profiles: list[JobProfile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Jobs in it that have not ended, or not well."""


def find_sources(paths: Iterable[Path]) -> Iterator[Source]:
    """Yield the histories among files and folders, folders searched to the bottom, in the order of their names.

    Files that are named themselves are histories of some kind; in folders, other files are passed. What lies in a
    folder and cannot be opened is a source all the same, so that reading it says why.

    Raises:
        UserError: a path that is named itself is not there or cannot be read.
    """
    for path in paths:
        try:
            if path.is_dir():
                yield from _in_folder(path)
            else:
                yield Source(_kind(path) or "unknown", str(path), path)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; check the path and its permissions") from error


def read_source(source: Source) -> Found:
    """Read a source.

    Raises:
        BrokenHistoryError: it cannot be read; the text says why.
        UnfinishedError: its job has not ended well.
        OSError: the file cannot be read.
        UserError: a library that this needs is missing.
    """
    return _READERS[source.kind](source.path)


def _in_folder(folder: Path) -> Iterator[Source]:
    if folder.name.startswith(FOLDER_PREFIX):
        yield Source("spark", str(folder), folder)
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        try:
            if path.is_dir() and not path.is_symlink():
                yield from _in_folder(path)
            elif path.is_file() and (kind := _kind(path)):
                yield Source(kind, str(path), path)
        except OSError:
            yield Source("unreadable", str(path), path)


def _kind(path: Path) -> str:
    """Return what a file is by its name and beginning; empty if it is no history."""
    if path.suffix == ".jhist":
        return "jhist"
    if path.name.removesuffix(".inprogress").rpartition(".")[2] in CODECS:
        return "spark"
    if path.name.startswith("history.txt"):
        return "tez"
    with path.open("rb") as stream:
        beginning = stream.read(64)
    return next((kind for start, kind in _BEGINNINGS if beginning.startswith(start)), "")


def _tez(path: Path) -> Found:
    runs, left_out = read_tez_history(path)
    return Found(runs, [], left_out)


def _exported(path: Path) -> Found:
    found = Found()
    with path.open("rb") as stream:
        for at, line in lines(stream):
            try:
                document = json.loads(line)
                if EXPORT_FORM in mapping(document):
                    if document[EXPORT_FORM] != EXPORT_VERSION:
                        raise BrokenHistoryError(f"exported by another version of Treadle ({document[EXPORT_FORM]!r})")
                    continue
                found.profiles.append(profile_from_json(document))
            except (ValueError, RecursionError) as error:
                raise BrokenHistoryError(f"line {at}: {error}") from error
    return found


def _tez_proto(_path: Path) -> Found:
    raise BrokenHistoryError(
        "a SequenceFile, as of Tez's ProtoHistoryLoggingService, is not read; have Tez log by "
        "SimpleHistoryLoggingService"
    )


def _unreadable(path: Path) -> Found:
    if path.is_dir():
        next(path.iterdir(), None)
    else:
        _kind(path)
    raise BrokenHistoryError("could not be read when it was looked for; import it again")


def _unknown(_path: Path) -> Found:
    raise BrokenHistoryError("no history of MapReduce, Spark or Tez, and no export of profiles")


_READERS: Final[dict[str, Callable[[Path], Found]]] = {
    "jhist": lambda path: Found([read_jhist(path)]),
    "spark": lambda path: Found([read_spark_log(path)]),
    "tez": _tez,
    "treadle": _exported,
    "tez-proto": _tez_proto,
    "unreadable": _unreadable,
    "unknown": _unknown,
}

"""A folder of segments, a file each: names, bounds of size and age, who may read them."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Final, NamedTuple

from treadle.config.trust import reason_against
from treadle.record.chunks import RecordingError

SUFFIX: Final = ".rec"
_NAME: Final = re.compile(r"(\d{8}T\d{6}\.\d{3})Z-(\d+)-(\d{6,})" + re.escape(SUFFIX))
_TIME: Final = "%Y%m%dT%H%M%S.%f"


class SegmentFile(NamedTuple):
    """A segment's file, as its name says."""

    path: Path
    began: datetime
    process: int
    number: int


def prepare(folder: Path) -> None:
    """Make a folder that nobody else may look into, if it is not there.

    Raises:
        OSError: it cannot be made.
        RecordingError: others may write to it.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    reason = reason_against(folder)
    if reason:
        raise RecordingError(reason)


def create(folder: Path, process: int, number: int, now: datetime) -> tuple[Path, IO[bytes]]:
    """Return the file of a new segment, which only this user may read.

    Raises:
        OSError: it cannot be made.
    """
    time = now.astimezone(UTC).strftime(_TIME)[:-3]
    path = folder / f"{time}Z-{process}-{number:06}{SUFFIX}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    return path, os.fdopen(descriptor, "wb", buffering=0)


def segments(place: Path) -> list[Path]:
    """Return the files of a recording: a file itself, or all segments of a folder in the order in which they began.

    Raises:
        RecordingError: there are none.
    """
    if place.is_file():
        return [place]
    found = [each.path for each in _segment_files(place)] if place.is_dir() else []
    if not found:
        what = "has no segments of a recording" if place.is_dir() else "is not there"
        raise RecordingError(f"{place} {what}; name a file {SUFFIX}, or the folder of `record.folder`")
    return found


def tidy(folder: Path, size_max: int, age_max: timedelta, now: datetime, keep: Path) -> int:
    """Remove the oldest segments until the others are neither too large nor too old; return how many bytes are left.

    ``keep`` is not removed.
    """
    files = [(each, each.path.stat().st_size) for each in _segment_files(folder)]
    left = sum(size for _, size in files)
    for each, size in files:
        if each.path == keep or (left <= size_max and now - each.began <= age_max):
            continue
        each.path.unlink(missing_ok=True)
        left -= size
    return left


def _segment_files(folder: Path) -> list[SegmentFile]:
    found = []
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_file() and not path.is_symlink():
            began = datetime.strptime(f"{match[1]}000", _TIME).replace(tzinfo=UTC)
            found.append(SegmentFile(path, began, int(match[2]), int(match[3])))
    return sorted(found, key=lambda each: (each.began, each.process, each.number))

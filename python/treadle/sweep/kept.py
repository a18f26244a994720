"""Where a sweep keeps results: a file for each run, named by the digest of all that the run depends on."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, Final

from treadle.config.trust import trusted_owners, user_name
from treadle.errors import UserError
from treadle.files import read_regular

RUNS: Final = "runs"
FAILED: Final = "failed"
FILES: Final = "files"


class Kept:
    """A folder with runs that went well, runs that failed, and the files that runs read.

    A file is put in its place at once, so that a folder that another sweep uses, or that was left in the middle, is as
    good as any. Results of runs that failed are for people: they run again with the next sweep.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is not there.

        Raises:
            UserError: it cannot be made or written, or it or a folder in it is a link, or others may change it.
        """
        self.folder = folder
        try:
            folder.parent.mkdir(0o755, parents=True, exist_ok=True)
            for each in (folder, *(folder / name for name in (RUNS, FAILED, FILES))):
                make_folder(each)
                if reason := _reason_against(each):
                    raise UserError(f"{each}: {reason}; name another folder for the runs with --cache")
            if not os.access(folder / RUNS, os.W_OK):
                raise PermissionError(13, "may not be written")
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}; name another folder for the runs with --cache") from error

    @property
    def files(self) -> Path:
        """Where the files are that runs read."""
        return self.folder / FILES

    def get(self, key: str) -> bytes | None:
        """Return a successful run's result; None if it has not run, or its file is damaged."""
        try:
            text = _read_below(self.folder, self._place(RUNS, key))
        except OSError:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            return None
        return text if isinstance(found, dict) and found.get("key") == key else None

    def put(self, key: str, result: bytes, *, failed: bool) -> None:
        """Keep a run's result.

        Raises:
            UserError: it cannot be written.
        """
        place = self._place(FAILED if failed else RUNS, key)
        try:
            write_at_once(place, result, self.folder)
            if not failed:
                self._place(FAILED, key).unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{place}: {error.strerror}; make room, and run the same again to go on") from error

    def _place(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"


def write_at_once(place: Path, content: bytes, root: Path) -> None:
    """Write a file so that there is all of it or nothing.

    Args:
        place: of the file; folders to it are made, and a link in its place is replaced
        content: all of it
        root: a folder above; neither it nor a folder between may be a link, which could lead to other files

    Raises:
        OSError: it cannot be written, or there is a link on the way.
    """
    for folder in _folders(root, place):
        make_folder(folder)
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder in one that is there, unless it exists; code from folders that a group may write is not run.

    Raises:
        OSError: it cannot be made, or a link or a file is in its place.
    """
    try:
        folder.mkdir(0o755)
    except FileExistsError:
        _refuse_link(folder)


def has_content(place: Path, content: bytes, root: Path) -> bool:
    """Say whether a file has a content already; arguments as of `write_at_once`.

    Raises:
        OSError: it cannot be read, or there is a link on the way.
    """
    for folder in _folders(root, place):
        if folder.is_symlink():
            _refuse_link(folder)
    if place.is_symlink() or not place.is_file() or place.stat().st_size != len(content):
        return False
    return read_regular(place, len(content)) == content


def _read_below(root: Path, place: Path) -> bytes:
    for folder in _folders(root, place):
        _refuse_link(folder)
    if place.is_symlink():
        raise OSError(errno.ELOOP, "is a link", str(place))
    size = place.stat().st_size
    return read_regular(place, size)


def _folders(root: Path, place: Path) -> list[Path]:
    """Return the folders from a root to that of a file."""
    between = list(place.relative_to(root).parents)[-2::-1]  # the last is the root
    return [root, *(root / each for each in between)]


def _refuse_link(folder: Path) -> None:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a link or a file, not a folder", str(folder))


def _reason_against(folder: Path) -> str:
    found = folder.lstat()
    if found.st_uid not in trusted_owners():
        return f"belongs to {user_name(found.st_uid)}, who could change what runs read"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it; take that right away with chmod go-w {folder}"
    return ""


def result_bytes(document: dict[str, Any]) -> bytes:
    """Return a result as it is kept: the same bytes for the same content."""
    return (json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()

"""Where a sweep keeps results: a file for each run, named by the digest of all that the run depends on."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from treadle.errors import UserError

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
            UserError: it cannot be made or written.
        """
        self.folder = folder
        try:
            folder.mkdir(0o755, parents=True, exist_ok=True)
            for name in (RUNS, FAILED, FILES):
                (folder / name).mkdir(0o755, exist_ok=True)  # code from folders that a group may write is not run
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
            text = self._place(RUNS, key).read_bytes()
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
            write_at_once(place, result)
            if not failed:
                self._place(FAILED, key).unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{place}: {error.strerror}; make room, and run the same again to go on") from error

    def _place(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"


def write_at_once(place: Path, content: bytes) -> None:
    """Write a file so that there is all of it or nothing."""
    place.parent.mkdir(0o755, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def result_bytes(document: dict[str, Any]) -> bytes:
    """Return a result as it is kept: the same bytes for the same content."""
    return (json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()

"""The folder of a mini cluster: made anew at each start, and nobody else's files removed for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from treadle.lab.minicluster.errors import ClusterError

MARK: Final = ".treadle-minicluster"
"""A file that says: all that is in this folder was made by a mini cluster."""


def make_anew(folder: Path) -> None:
    """Make an empty folder for a cluster; what an earlier cluster left there is removed.

    Raises:
        ClusterError: there are files of somebody else, or the folder cannot be made.
    """
    mark = folder / MARK
    try:
        if folder.is_dir() and any(folder.iterdir()) and not mark.is_file():
            raise ClusterError(
                f"{folder} is not empty, and what is in it was not made by a mini cluster: nothing was touched; "
                "choose another folder, or empty it yourself"
            )
        if folder.is_dir():
            _empty(folder)
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError as error:
        raise ClusterError(f"{folder} cannot be a cluster's folder: {error.strerror or error}") from error


def _empty(folder: Path) -> None:
    """Remove all but the mark, which goes last: a removal that is broken off can be taken up again."""
    for entry in sorted(folder.iterdir()):
        if entry.name == MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()

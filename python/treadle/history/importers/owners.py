"""Whose a history is: the user that it names must own its files, else anybody could write another one's history."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from treadle.history.importers.outcome import Source
from treadle.history.importers.sources import Found
from treadle.history.importers.spark import PART_PREFIX
from treadle.history.run import JobRun, storable


def see_owners(source: Source, found: Found) -> None:
    """Add whose a source's files are as this process sees it.

    The process that read them, which a hostile file may have taken over, is not believed alone.
    """
    for path in _files(source.path):
        seen = path.lstat()
        found.owners.setdefault(seen.st_uid, path.name)
        if seen.st_mode & stat.S_IWOTH:
            found.open_to_all = path.name


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from sorted(entry for entry in path.iterdir() if entry.name.startswith(PART_PREFIX))


def doubt(found: Found, run: JobRun) -> str:
    """Return why the files of a run do not speak for its user; empty if they do."""
    if found.open_to_all:
        return f"every user may write {found.open_to_all}"
    for owner, file in found.owners.items():
        name = name_of(owner)
        if storable(name) != run.key.user:
            return f"{file} is {name}'s, and is of a job of {run.key.user or 'nobody'}"
    return "" if found.owners else "its files are not known"


def doubt_of_export(found: Found) -> str:
    """Return why an export is not to be believed: another user than root and the one that imports may have written it.

    Empty if it can be believed.
    """
    if found.open_to_all:
        return f"every user may write {found.open_to_all}; copy it to where only you may write"
    for owner, file in found.owners.items():
        if owner not in {0, os.geteuid()}:
            return f"{file} is {name_of(owner)}'s, and an export replaces what is known; copy it if you trust it"
    return "" if found.owners else "its file is not known"


@cache
def name_of(owner: int) -> str:
    """Return the name of a user, or a replacement if no user has this number."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"uid {owner}"

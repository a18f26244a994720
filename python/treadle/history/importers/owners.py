"""Whose a history is: the user that it tells must own its files, else anybody could write another one's history."""

from __future__ import annotations

import os
import pwd
from functools import cache

from treadle.history.importers.sources import Found
from treadle.history.run import JobRun, storable


def doubt(found: Found, run: JobRun) -> str:
    """Return why the files of a run do not speak for its user; empty if they do."""
    if found.open_to_all:
        return f"every user may write {found.open_to_all}"
    for owner, file in found.owners.items():
        name = name_of(owner)
        if storable(name) != run.key.user:
            return f"{file} is {name}'s, and tells of a job of {run.key.user or 'nobody'}"
    return "" if found.owners else "its files are not known"


def doubt_of_export(found: Found) -> str:
    """Return why an export is not to be believed: another user than root and the one that imports may have written it.

    Empty if it is to be believed.
    """
    if found.open_to_all:
        return f"every user may write {found.open_to_all}; copy it to where only you may write"
    for owner, file in found.owners.items():
        if owner not in {0, os.geteuid()}:
            return f"{file} is {name_of(owner)}'s, and an export replaces what is known; copy it if you trust it"
    return "" if found.owners else "its file is not known"


@cache
def name_of(owner: int) -> str:
    """Return the name of a user, or what stands for it where there is none of this number."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"uid {owner}"

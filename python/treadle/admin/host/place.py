"""Putting a file in another's place with its mode and owner, and what undoes that."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle.files import read_regular, write_whole

BYTES_MAX: Final = 16 << 20
"""No file of settings is longer."""


def content_of(path: Path) -> bytes | None:
    """Return a file's content; None if there is none.

    Raises:
        UserError: it cannot be read, or is longer than `BYTES_MAX`.
    """
    try:
        content = read_regular(path, BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if len(content) > BYTES_MAX:
        raise UserError(f"{path} has more than {BYTES_MAX} bytes, too many for a file of settings; check the path")
    return content


def put(path: Path, data: bytes, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Put a content in a file's place at once. A file that is there keeps its mode, owner and attributes.

    Raises:
        OSError: it cannot be written; nothing has changed then.
    """
    before = path.stat() if path.exists() else None

    def as_before(file: int) -> None:
        os.fchmod(file, mode if before is None else before.st_mode & 0o7777)
        wanted = owner if before is None else (before.st_uid, before.st_gid)
        if wanted is not None and wanted != (os.geteuid(), os.getegid()):
            os.fchown(file, *wanted)
        if before is not None:
            copy_attributes(path, file)

    write_whole(path, data, as_before)


def copy_attributes(source: Path, file: int) -> None:
    """Give an open file another's extended attributes (access lists, labels) as far as this user may."""
    with suppress(OSError):
        for name in os.listxattr(source):
            with suppress(OSError):
                os.setxattr(file, name, os.getxattr(source, name))


def back_up(path: Path, data: bytes, now: datetime) -> Path:
    """Keep a copy beside a file, with its mode and owner; return where.

    Raises:
        OSError: it cannot be written.
    """
    like = path.stat()
    stamp = f"{now:%Y%m%d-%H%M%S}"
    kept = path.with_name(f"{path.name}.treadle-{stamp}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.treadle-{stamp}-{number}")
    put(kept, data, like.st_mode & 0o7777, (like.st_uid, like.st_gid))
    return kept


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it that are missing, mode 0755; return those made, the outer ones first.

    Raises:
        OSError: one cannot be made; none is left then.
    """
    made: list[Path] = []
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir()
            made.append(each)
            each.chmod(0o755)
    except OSError:
        remove_folders(made)
        raise
    return made


def remove_folders(folders: list[Path]) -> None:
    """Remove those folders that are empty, the inner ones first."""
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def user_ids(name: str) -> tuple[int, int]:
    """Return a user's number and that of its group.

    Raises:
        UserError: this host has no such user.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise UserError(f"this host has no user {name}; name the ResourceManager's with --user") from error
    return entry.pw_uid, entry.pw_gid

"""What an installation has written, so that it can be taken back: a file below the prefix.

Putting a file in another's place with its mode and owner, and what undoes that.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from treadle.admin.host.site_files import Replaced
from treadle.errors import UserError
from treadle.files import read_regular, write_whole

NAME: Final = "installed.json"
FORMAT: Final = 1

Kind = Literal["site", "env", "own"]
"""A yarn-site.xml, a yarn-env.sh, or a file that is Treadle's alone."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What was done to a file."""

    path: Path
    kind: Kind
    before: str
    """SHA-256 of what was there before the first installation; empty if nothing was."""
    after: str
    """SHA-256 of what was written last."""
    clean: bool = True
    """Did nobody else change it between the first installation and the last?"""
    backups: tuple[str, ...] = ()
    """Copies of what was there before each installation, the first one first."""
    replaced: tuple[Replaced, ...] = ()
    added: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Manifest:
    """All that was done below and beside a prefix."""

    prefix: Path
    release: str = ""
    user: str = ""
    files: dict[Path, FileRecord] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    """Folders that were made, the outer ones first."""
    releases: list[str] = field(default_factory=list)

    def save(self) -> None:
        """Write it.

        Raises:
            OSError: it cannot be written.
        """
        plain = {
            "format": FORMAT,
            "release": self.release,
            "user": self.user,
            "releases": self.releases,
            "folders": [str(folder) for folder in self.folders],
            "files": [_plain(each) for each in self.files.values()],
        }
        write_whole(self.prefix / NAME, json.dumps(plain, indent=1) + "\n", lambda file: os.fchmod(file, 0o644))


def read_manifest(prefix: Path) -> Manifest | None:
    """Return what was installed below a prefix; None if nothing was.

    Raises:
        UserError: it cannot be read.
    """
    path = prefix / NAME
    try:
        plain = json.loads(path.read_text())
        if plain["format"] != FORMAT:
            raise UserError(f"{path} was written by another release of Treadle; use the `treadle` of that one")
        files = [_record(each) for each in plain["files"]]
        return Manifest(
            prefix,
            str(plain["release"]),
            str(plain["user"]),
            {each.path: each for each in files},
            [Path(each) for each in plain["folders"]],
            [str(each) for each in plain["releases"]],
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; run this as the user who installed Treadle") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); take Treadle out by hand (docs/administrator.md)") from error


def installed_conf(prefix: Path) -> Path | None:
    """Return the folder of Hadoop's settings that an installation below a prefix has changed; None if none is known."""
    with suppress(UserError):  # the check of it reports that it cannot be read
        known = read_manifest(prefix)
        folders = {path.parent for path in known.files if path.name == "yarn-site.xml"} if known else set()
        return next(iter(folders)) if len(folders) == 1 else None
    return None


def sha256(data: bytes | None) -> str:
    """Return the SHA-256 of a content; empty if there is none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _plain(record: FileRecord) -> dict[str, Any]:
    return asdict(record) | {"path": str(record.path), "replaced": [each.plain() for each in record.replaced]}


def _record(plain: dict[str, Any]) -> FileRecord:
    return FileRecord(
        Path(plain["path"]),
        plain["kind"],
        plain["before"],
        plain["after"],
        plain["clean"],
        tuple(plain["backups"]),
        tuple(Replaced(**each) for each in plain["replaced"]),
        tuple((str(name), str(value)) for name, value in plain["added"]),
    )


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

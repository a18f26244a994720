"""What an installation has written, so that it can be taken back: a file below the prefix."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from treadle.admin.host.site_edit import Replaced
from treadle.errors import UserError
from treadle.files import write_whole

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

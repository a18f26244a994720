"""The earlier contents of a treadle.yaml, a bounded number of them, in a folder beside it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle.files import own_as, own_folder, read_regular, write_whole

SUFFIX: Final = ".history"
"""Appended to the name of a treadle.yaml: the folder of what it was."""

VERSIONS_MAX: Final = 50
"""The oldest are forgotten first."""

BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """What a treadle.yaml was until something replaced it."""

    number: int
    """Numbers rise and are not used again."""
    until: str
    """When it was replaced: in UTC, ISO 8601."""
    policy: str
    """The kinds of its parts."""
    replaced_by: str
    """What took its place."""
    text: str


class History:
    """The history of one treadle.yaml."""

    def __init__(self, target: Path) -> None:
        """Look at the history of a file; ``target`` has no symbolic link in it."""
        self.folder = target.with_name(target.name + SUFFIX)

    def versions(self) -> list[Version]:
        """Return what is kept, oldest first; what is damaged is left out."""
        found = []
        for file in self._files():
            with suppress(OSError, ValueError, TypeError, RecursionError):
                content = read_regular(file, BYTES_MAX)
                if len(content) <= BYTES_MAX:
                    found.append(Version(**json.loads(content)))
        return sorted(found, key=lambda version: version.number)

    def version(self, number: int | None) -> Version:
        """Return a version; the newest without a number.

        Raises:
            UserError: there is none.
        """
        versions = self.versions()
        if not versions:
            raise UserError(f"{self.folder}: nothing is kept there; `treadle policy use` keeps what it replaces")
        if number is None:
            return versions[-1]
        found = next((version for version in versions if version.number == number), None)
        if found is None:
            known = ", ".join(str(version.number) for version in versions)
            raise UserError(f"there is no version {number}; kept are {known} (`treadle policy history`)")
        return found

    def keep(self, until: str, policy: str, replaced_by: str, text: str, like: os.stat_result) -> Version:
        """Keep a content that is about to be replaced, readable by whom the file itself is readable.

        Raises:
            UserError: a link or a file is in the folder's place.
            OSError: it cannot be written.
        """
        files = self._files()
        number = 1 + max((int(file.stem) for file in files), default=0)
        version = Version(number, until, policy, replaced_by, text)
        content = json.dumps(asdict(version), indent=1)
        owner = (like.st_uid, like.st_gid)
        try:
            with own_folder(self.folder, owner) as folder:
                write_whole(folder / f"{number:06}.json", content, lambda file: own_as(file, owner))
                for file in files[: max(len(files) + 1 - VERSIONS_MAX, 0)]:
                    (folder / file.name).unlink(missing_ok=True)
        except NotADirectoryError as error:
            raise UserError(f"{self.folder}: {error.strerror}; move it away") from error
        return version

    def forget(self, version: Version) -> None:
        """Forget a version that was kept for a change that did not happen."""
        (self.folder / f"{version.number:06}.json").unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(file for file in self.folder.glob("*.json") if file.stem.isdigit())

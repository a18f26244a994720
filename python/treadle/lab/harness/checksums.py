"""Whether data sets are what they were: files against a SHA256SUMS, as `sha256sum` writes it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from treadle.errors import UserError

SUMS: Final = "SHA256SUMS"
BESIDES: Final = (".md", ".txt")
"""Endings of texts about data, which are not listed."""

_LINE: Final = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


class Verdict(StrEnum):
    """The state of a file."""

    RIGHT = "right"
    DIFFERS = "differs"
    MISSING = "missing"
    UNLISTED = "not listed"
    """It is there, and nobody knows what it should be."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, by its path in the folder."""

    name: str
    verdict: Verdict
    size_bytes: int
    """0 if it is missing."""


def check_folder(folder: Path) -> Iterator[Checked]:
    """Yield each file that the folder's SHA256SUMS lists, and then each that it does not, in order of names.

    Raises:
        UserError: there is no such list, a line of it is wrong, or a file cannot be read.
    """
    listed = read_sums(folder)
    for name, wanted in listed.items():
        file = folder / name
        if not file.is_file():
            yield Checked(name, Verdict.MISSING, 0)
            continue
        verdict = Verdict.RIGHT if _sum(file) == wanted else Verdict.DIFFERS
        yield Checked(name, verdict, file.stat().st_size)
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_file() and name not in listed and file.name != SUMS and file.suffix not in BESIDES:
            yield Checked(name, Verdict.UNLISTED, file.stat().st_size)


def read_sums(folder: Path) -> Mapping[str, str]:
    """Return the sum of each file that a folder's list has, in lower case.

    Raises:
        UserError: there is none, or a line of it is wrong.
    """
    file = folder / SUMS
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "no UTF-8"
        raise UserError(
            f"{file}: {why}; it lists what must be there: write it by `sha256sum FILE... > {SUMS}` in the folder of "
            "data that is known to be right"
        ) from None
    found = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None or PurePosixPath(match[2]).is_absolute() or ".." in PurePosixPath(match[2]).parts:
            raise UserError(
                f"{file}:{number}: {line[:80]!r} is no sum and path in the folder; write `sha256sum`'s lines"
            )
        found[PurePosixPath(match[2]).as_posix()] = match[1].lower()
    return found


def _sum(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; make it readable") from None

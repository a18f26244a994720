"""The files that runs read, copied to folders named by the digest of what is in them.

A run reads the copy: a file that somebody changes in the middle of a sweep changes no run, and a folder may be sent
to another machine as it is.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

from treadle.errors import UserError
from treadle.files import read_regular
from treadle.sweep.kept import has_content, write_at_once
from treadle.workload.formats import FORMATS, recognised
from treadle.workload.own_code import GENERATORS, READERS, offered, place_of

BESIDE: Final = ("google", "tpch", "omega")
"""Formats whose readers read other files of the same folder."""

BYTES_MAX: Final = 4 << 30
"""Files that a scenario reads together are no longer than this: they are copied by way of memory."""


class Inputs:
    """Takes files in."""

    def __init__(self, folder: Path) -> None:
        """Put copies below a folder."""
        self.folder = folder
        self.taken: dict[str, None] = {}
        """The folders that lines name, in order."""

    def scenario(self, document: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], str]:
        """Return a scenario that reads copies, and a digest of the entry points that it names.

        Args:
            document: the scenario, which must be right
            folder: where its paths begin

        Raises:
            UserError: a file cannot be read or copied.
        """
        changed = copy.deepcopy(dict(document))
        workload, code = changed["workload"], ""
        format_, own = workload.get("format"), workload.get("own") or {}
        if workload.get("file"):
            workload["file"] = self._workload(folder / workload["file"], format_)
        place = place_of(format_ or "")
        if place is not None:
            workload["format"] = f"{self.file(folder / place[0])}:{place[1]}"
        elif format_ and format_ not in FORMATS:
            code = _entry_point(READERS, format_)
        if own.get("file"):
            own["file"] = self.file(folder / own["file"])
        elif own:
            code = _entry_point(GENERATORS, own["entry_point"])
        return self.policy(changed, folder), code

    def policy(self, document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return a document whose policies' parts are read from copies; arguments and errors as of `scenario`."""
        changed = copy.deepcopy(dict(document))
        for _, part in parts_of_files(changed):
            part["path"] = self.file(folder / part["path"])
        return changed

    def file(self, file: Path) -> str:
        """Take a file in; return the path of its copy below the folder."""
        return f"{self._take(file.parent, [file])}/{file.name}"

    def content(self, name: str, content: bytes) -> str:
        """Add the content of a file with a name; return its path below the folder."""
        return f"{self._keep([(name, content)])}/{name}"

    def _workload(self, place: Path, format_: str | None) -> str:
        if place.is_dir():
            return self._take(place, sorted(each for each in place.rglob("*") if each.is_file()))
        if place.is_file() and (format_ or recognised(place)) in BESIDE:
            beside = sorted(each for each in place.parent.iterdir() if each.is_file())
            return f"{self._take(place.parent, beside)}/{place.name}"
        return self.file(place)

    def _take(self, folder: Path, files: Sequence[Path]) -> str:
        contents, left = [], BYTES_MAX
        for file in files:
            name = file.relative_to(folder).as_posix()
            try:
                size = min(file.stat().st_size, left)
                content = read_regular(file, size)
            except OSError as error:
                raise UserError(f"{file}: {error.strerror}; check the path") from error
            if len(content) > size:
                raise UserError(f"{file}: longer than {BYTES_MAX} bytes with files beside it, or it grows; shorten it")
            contents.append((name, content))
            left -= size
        return self._keep(contents)

    def _keep(self, contents: Sequence[tuple[str, bytes]]) -> str:
        digest = hashlib.sha256()
        for name, content in contents:
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        known = digest.hexdigest()[:32]
        for name, content in contents:
            place = self.folder / known / name
            try:
                if not has_content(place, content, self.folder):
                    write_at_once(place, content, self.folder)
            except OSError as error:
                raise UserError(f"{place}: {error.strerror}; make room, or name another folder by --cache") from error
        self.taken[known] = None
        return known


def parts_of_files(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parts from a user's files of a treadle.yaml or a scenario, each with its path; those of engines too."""
    engines = {f"engines.{name}.": engine for name, engine in (document.get("engines") or {}).items()}
    for begin, place in ({"": document} | engines).items():
        for slot, part in ((place or {}).get("policy") or {}).items():
            if isinstance(part, dict) and part.get("kind") == "file":
                yield f"{begin}policy.{slot}", part


def _entry_point(group: str, name: str) -> str:
    """Return what distinguishes versions of an entry point: that of its distribution, and its module's text."""
    found: EntryPoint | None = offered(group).get(name)
    if found is None:
        return ""  # reading the jobs reports what is wrong
    dist = f"{found.dist.name} {found.dist.version}" if found.dist else ""
    try:
        source = inspect.getsource(inspect.getmodule(found.load()) or Inputs)
    except (OSError, TypeError, Exception):
        source = ""
    return hashlib.sha256(f"{found.value} {dist} {source}".encode()).hexdigest()

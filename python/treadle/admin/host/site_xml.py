"""Hadoop's configuration files (yarn-site.xml) as bytes: what they set, by Hadoop's own rules."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from treadle.errors import UserError
from treadle.files import read_regular

INCLUDES_MAX: Final = 8
"""Files that include each other so deep are taken for a circle."""

_BYTES_MAX: Final = 16 << 20
_SPACE: Final = b" \t"
_ATTRIBUTES: Final = frozenset({"name", "value", "final"})
"""Attributes of <property> that set what an element of the name would; Hadoop passes others over."""


@dataclass(frozen=True, slots=True)
class Property:
    """One property as it stands in a file."""

    name: str
    value: str
    final: bool
    """No later definition changes it."""
    line: int
    start: int
    """Where its element begins, bytes."""
    end: int
    value_start: int
    """Where the text of its value begins, bytes; -1 if there is no element for it."""
    value_end: int

    @property
    def editable(self) -> bool:
        """Has it a text that can be replaced?"""
        return self.value_start >= 0


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file of properties."""

    path: Path
    data: bytes
    properties: tuple[Property | Path, ...]
    """In the order of the file; a path is another file that is included there."""
    close: int
    """Where the end tag of the root element begins, bytes; -1 if the root has none."""
    root_start: int
    root_end: int
    """The end of the root's start tag."""

    @property
    def newline(self) -> str:
        """What ends a line of the file."""
        return "\r\n" if b"\r\n" in self.data else "\n"


@dataclass(frozen=True, slots=True)
class Setting:
    """What holds for a key."""

    value: str
    final: bool
    file: Path
    line: int
    property: Property | None = field(default=None, compare=False)


def read_site(path: Path) -> SiteFile:
    """Read a file.

    Raises:
        UserError: it is not there, or nothing that can be read and changed safely; the text has the line.
    """
    try:
        data = read_regular(path, _BYTES_MAX)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; is its folder the ResourceManager's HADOOP_CONF_DIR?") from error
    if len(data) > _BYTES_MAX:
        raise UserError(f"{path} has more than {_BYTES_MAX} bytes, too many for a file of settings")
    return parse_site(path, data)


def parse_site(path: Path, data: bytes) -> SiteFile:
    """Return what a file's content says; ``path`` is what errors call it, and where relative includes begin.

    Raises:
        UserError: it is no file of properties, or has a document type or an encoding that cannot be edited.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path} is in UTF-16, which is not edited; save it as UTF-8")
    reader = _Reader(path, data)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UserError(f"{path}:{error.lineno}: {expat.ErrorString(error.code)}; put the XML right first") from error
    except (LookupError, ValueError) as error:  # an encoding that nobody knows, or one of several bytes a letter
        raise UserError(f"{path}: its encoding cannot be edited ({error}); save it as UTF-8") from error
    if not reader.seen_root:
        raise UserError(f"{path} has no <configuration>; is it a file of Hadoop's settings?")
    return SiteFile(path, data, tuple(reader.found), reader.close, reader.root_start, reader.root_end)


def settings_of(file: SiteFile, depth: int = 0) -> dict[str, Setting]:
    """Return what holds for each key, included files followed: the last definition, or the first final one.

    Raises:
        UserError: an included file cannot be read.
    """
    held: dict[str, Setting] = {}
    for each in file.properties:
        if isinstance(each, Path):
            if depth >= INCLUDES_MAX:
                raise UserError(f"{file.path} includes files more than {INCLUDES_MAX} deep; is that a circle?")
            more: Mapping[str, Setting] = settings_of(read_site(each), depth + 1)
        else:
            more = {each.name: Setting(each.value, each.final, file.path, each.line, each)}
        for name, setting in more.items():
            if name not in held or not held[name].final:
                held[name] = setting
    return held


class _Reader:
    """Gathers properties, with the places of their bytes, while expat reads."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path, self._data = path, data
        self.found: list[Property | Path] = []
        self.close = self.root_start = self.root_end = -1
        self.seen_root = False
        self._open: list[str] = []
        self._text: list[str] = []
        self._fields: dict[str, Any] = {}
        self._missing = ""
        """A note on a missing file that an open <include> names; empty if the file exists."""
        self._in_fallback = False
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.XmlDeclHandler = self._declaration

    def _doctype(self, *_: Any) -> None:
        raise UserError(
            f"{self._path}:{self.parser.CurrentLineNumber}: it has a document type (DTD), whose entities could stand "
            "for anything; take <!DOCTYPE ...> out, or write Treadle's properties by hand (treadle conf)"
        )

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        letters = "<>/configuration"
        if encoding and letters.encode(encoding) != letters.encode("ascii"):
            raise UserError(f"{self._path} is in {encoding}, which is not edited; save it as UTF-8")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local, at = name.rpartition(" ")[2], self.parser.CurrentByteIndex
        if not self._open:
            self.seen_root, self.root_start, self.root_end = True, at, self._tag_end(at)
            if local != "configuration":
                raise UserError(f"{self._path}: its root is <{local}>, not <configuration>")
        if local == "property":
            self._fields = {
                "start": at,
                "opened": self._tag_end(at),
                "line": self.parser.CurrentLineNumber,
                **{key: text for key, text in attributes.items() if key in _ATTRIBUTES},
            }
        elif local == "include" and attributes.get("href"):
            self._include(attributes["href"])
        elif local == "fallback":
            self._in_fallback = True
        elif local == "value" and "start" in self._fields:
            self._fields["value_start"] = self._tag_end(at)
        self._text.clear()
        self._open.append(local)

    def _end(self, name: str) -> None:
        local, at = name.rpartition(" ")[2], self.parser.CurrentByteIndex
        self._open.pop()
        text = "".join(self._text)
        if not self._open:
            self.close = -1 if self._is_empty(self.root_end) else at
        elif local in {"name", "value", "final"} and "start" in self._fields:
            self._fields[local] = text
            if local == "value":
                empty = self._is_empty(self._fields["value_start"])
                self._fields |= {"value_start": -1} if empty else {"value_end": at}
        elif local == "property" and "start" in self._fields:
            self._finish(at)
        elif local == "include":
            if self._missing and not self._in_fallback:
                raise UserError(self._missing)
            self._missing, self._in_fallback = "", False
        if local not in {"name", "value", "final"}:
            self._text.clear()

    def _finish(self, at: int) -> None:
        fields, self._fields = self._fields, {}
        name, opened = str(fields.get("name", "")).strip(), fields["opened"]
        if name and (self._missing or not self._in_fallback):  # by the rule of Hadoop's Configuration
            self.found.append(
                Property(
                    name,
                    str(fields.get("value", "")),
                    str(fields.get("final", "")).strip().lower() == "true",
                    fields["line"],
                    fields["start"],
                    opened if self._is_empty(opened) else self._tag_end(at),
                    fields.get("value_start", -1),
                    fields.get("value_end", -1),
                )
            )

    def _include(self, href: str) -> None:
        path = self._path.parent / href.removeprefix("file://")
        if path.is_file():
            self.found.append(path)
            return
        self._missing = (
            f"{self._path}:{self.parser.CurrentLineNumber}: it includes {href}, which is not a file here, so that "
            "nobody can say what holds; put the file there, or write Treadle's properties by hand (treadle conf)"
        )
        if "://" in href and not href.startswith("file://"):
            raise UserError(self._missing)  # a server's, which may be there for the ResourceManager

    def _is_empty(self, tag_end: int) -> bool:
        """Is the tag that ends there an element of its own, as <value/>? expat tells its end where the tag ends."""
        return self._data.endswith(b"/>", 0, tag_end)

    def _tag_end(self, at: int) -> int:
        """Return where the tag ends that begins at a place: after its >, those in quotes aside."""
        quote = 0
        for index in range(at, len(self._data)):
            byte = self._data[index]
            if quote:
                quote = 0 if byte == quote else quote
            elif byte in b"\"'":
                quote = byte
            elif byte == ord(">"):
                return index + 1
        return len(self._data)


def line_start(data: bytes, at: int) -> int:
    """Return where the line begins if nothing but blanks stands before a place, else the place itself."""
    start = at
    while start > 0 and data[start - 1] in _SPACE:
        start -= 1
    return start if start == 0 or data[start - 1] in b"\r\n" else at


def line_end(data: bytes, at: int) -> int:
    """Return where the next line begins if nothing but blanks stands after a place, else the place itself."""
    end = at
    while end < len(data) and data[end] in _SPACE:
        end += 1
    if data.startswith(b"\r\n", end):
        return end + 2
    return end + 1 if end < len(data) and data[end] in b"\r\n" else at


def whole_lines(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return from where to where to cut so that no empty line is left where nothing else stood on it."""
    begin = line_start(data, start)
    return begin, line_end(data, end) if begin == 0 or data[begin - 1] in b"\r\n" else end

"""Hadoop's configuration files on a host.

yarn-site.xml and the files that it includes, by Hadoop's own rules; treadle-site.xml, and the line in yarn-site.xml
that includes it; the lines in yarn-env.sh that put the shim's jar on the ResourceManager's class path.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat
from xml.sax.saxutils import escape

from treadle.errors import UserError
from treadle.files import read_regular

INCLUDES_MAX: Final = 8
"""Files that include each other so deep are taken for a circle."""

BYTES_MAX: Final = 16 << 20
"""No file of settings is longer."""

_FIELDS: Final = frozenset({"name", "value", "final"})
"""The fields of a <property>, as elements or as attributes; Hadoop ignores others."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A definition of a key."""

    value: str
    final: bool
    """No later definition changes it."""
    file: Path
    line: int


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file of properties."""

    path: Path
    data: bytes
    properties: tuple[tuple[str, Setting] | Path, ...]
    """Keys and values in the order of the file; a path is another file that is included there."""
    close: int
    """Where the root's end tag begins, bytes; where the root ends if it is an empty element."""


def read_site(path: Path) -> SiteFile:
    """Read a file.

    Raises:
        UserError: it does not exist, or cannot be read; the text has the line.
    """
    try:
        data = read_regular(path, BYTES_MAX)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; is its folder the ResourceManager's HADOOP_CONF_DIR?") from error
    if len(data) > BYTES_MAX:
        raise UserError(f"{path} has more than {BYTES_MAX} bytes, too many for a file of settings")
    return parse_site(path, data)


def parse_site(path: Path, data: bytes) -> SiteFile:
    """Return the parsed file; ``path`` is its name in errors, and the base of relative includes.

    Raises:
        UserError: it is not a file of properties, or has a document type or an encoding that cannot be edited.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path} is in UTF-16, which is not edited; save it as UTF-8")
    reader = _Reader(path)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UserError(f"{path}:{error.lineno}: {expat.ErrorString(error.code)}; put the XML right first") from error
    except (LookupError, ValueError) as error:  # an unknown encoding, or one of several bytes a letter
        raise UserError(f"{path}: its encoding cannot be edited ({error}); save it as UTF-8") from error
    return SiteFile(path, data, tuple(reader.found), reader.close)


def settings_of(file: SiteFile, depth: int = 0) -> dict[str, Setting]:
    """Return the effective value of each key, included files followed: the last definition, or the first final one.

    Raises:
        UserError: an included file cannot be read.
    """
    held: dict[str, Setting] = {}
    for each in file.properties:
        if isinstance(each, Path):
            if depth >= INCLUDES_MAX:
                raise UserError(f"{file.path} includes files more than {INCLUDES_MAX} deep; is that a circle?")
            more = settings_of(read_site(each), depth + 1)
        else:
            more = dict([each])
        held |= {name: setting for name, setting in more.items() if name not in held or not held[name].final}
    return held


class _Reader:
    """Gathers properties while expat reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: list[tuple[str, Setting] | Path] = []
        self.close = 0
        self._open: list[str] = []
        self._text: list[str] = []
        self._fields: dict[str, str] = {}
        self._line = 0
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
            "for anything; take <!DOCTYPE ...> out, or write Treadle's properties by hand (treadle paths conf)"
        )

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        letters = "<>/configuration"
        if encoding and letters.encode(encoding) != letters.encode("ascii"):
            raise UserError(f"{self._path} is in {encoding}, which is not edited; save it as UTF-8")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        if not self._open and local != "configuration":
            raise UserError(f"{self._path}: its root is <{local}>, not <configuration>")
        if local == "property":
            self._line = self.parser.CurrentLineNumber
            self._fields = {key: text for key, text in attributes.items() if key in _FIELDS}
        elif local == "include" and attributes.get("href"):
            self._include(attributes["href"])
        elif local == "fallback":
            self._in_fallback = True
        self._text.clear()
        self._open.append(local)

    def _end(self, name: str) -> None:
        local = name.rpartition(" ")[2]
        self._open.pop()
        if not self._open:
            self.close = self.parser.CurrentByteIndex
        elif local in _FIELDS:
            self._fields[local] = "".join(self._text)
        elif local == "property":
            self._finish()
        elif local == "include":
            if self._missing and not self._in_fallback:
                raise UserError(self._missing)
            self._missing, self._in_fallback = "", False

    def _finish(self) -> None:
        name = self._fields.get("name", "").strip()
        if name and (self._missing or not self._in_fallback):  # by the rule of Hadoop's Configuration
            final = self._fields.get("final", "").strip().lower() == "true"
            self.found.append((name, Setting(self._fields.get("value", ""), final, self._path, self._line)))

    def _include(self, href: str) -> None:
        path = self._path.parent / href.removeprefix("file://")
        if path.is_file():
            self.found.append(path)
            return
        self._missing = (
            f"{self._path}:{self.parser.CurrentLineNumber}: it includes {href}, which is not a file here, so "
            "that the effective values are unknown; put the file there, or write Treadle's properties by hand "
            "(treadle paths conf)"
        )
        if "://" in href and not href.startswith("file://"):
            raise UserError(self._missing)  # a server's, which may be there for the ResourceManager


OWN_SITE: Final = "treadle-site.xml"
"""The file of Treadle's settings, in the folder of yarn-site.xml."""

INCLUDE: Final = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{OWN_SITE}"><xi:fallback/></xi:include>'
"""The line in yarn-site.xml. Hosts that have this yarn-site.xml without the other file need the fallback."""

_INCLUDED: Final = re.compile(
    rb"<!--.*?-->|((?:(?<=[\r\n])[ \t]*)?%b(?:\r\n|\n)?)" % re.escape(INCLUDE.encode()), re.DOTALL
)


def with_include(file: SiteFile) -> bytes:
    """Return a yarn-site.xml that includes `OWN_SITE` after its own properties; each other byte stays."""
    data, close = file.data, file.close
    if data != without_include(data):
        return data
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    line = INCLUDE.encode() + newline
    if not data.startswith(b"</", close):
        opened = data[:close].removesuffix(b"/>").rstrip() + b">" + newline
        return opened + b"  " + line + b"</configuration>" + data[close:]
    before = data[:close].rstrip(b" \t")
    if before.endswith((b"\r", b"\n")):
        return before + b"  " + line + data[len(before) :]
    return data[:close] + line + data[close:]


def without_include(data: bytes) -> bytes:
    """Return a yarn-site.xml without the line of `with_include`; comments stay."""
    return _INCLUDED.sub(lambda found: b"" if found[1] else found[0], data)


def own_site(values: Mapping[str, str], finals: Collection[str] = ()) -> bytes:
    """Return `OWN_SITE` with these settings, some of them final."""
    return f"{_HEAD}<configuration>\n{_entries(values, finals)}</configuration>\n".encode("ascii", "xmlcharrefreplace")


def including(site: SiteFile, values: Mapping[str, str]) -> dict[str, Setting]:
    """Return the settings of a yarn-site.xml after `with_include` as if `OWN_SITE` had these."""
    # in one line, so that the lines after it keep their numbers
    body = _entries(values).replace("\n", " ").encode("ascii", "xmlcharrefreplace") + b"\n"
    data = _INCLUDED.sub(lambda found: body if found[1] else found[0], with_include(site))
    return settings_of(parse_site(site.path, data))


def _entries(values: Mapping[str, str], finals: Collection[str] = ()) -> str:
    final = "    <final>true</final>\n"
    return "".join(
        f"  <property>\n    <name>{escape(name)}</name>\n    <value>{escape(value)}</value>\n"
        f"{final if name in finals else ''}  </property>\n"
        for name, value in values.items()
    )


_HEAD: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    "<!-- Treadle's settings, which yarn-site.xml includes. The next `treadle install` keeps what you set, but for "
    "comments. -->\n"
)

_BEGIN: Final = "# treadle: begin. Written by treadle install; treadle uninstall takes it out."
_JOINED: Final = " The line before it had no end."
_END: Final = "# treadle: end"
_ENV_BLOCK: Final = re.compile(
    rf"(\n)?{re.escape(_BEGIN)}({re.escape(_JOINED)})?\n.*?^{re.escape(_END)}$\n?".encode(), re.DOTALL | re.MULTILINE
)

REQUIREMENTS: Final = "treadle-requirements.jar"
"""In the folder of the shim's jar. Hadoop reads it only if `TreadlePlacementAllocator` is set."""

_NAMED: Final = re.compile(rb'export HADOOP_CLASSPATH=(.*?)"\$\{HADOOP_CLASSPATH')


def with_jar(data: bytes, jar: Path) -> bytes:
    """Return a yarn-env.sh that has both jars on the class path of the ResourceManager, and of nothing else.

    Hadoop's scripts keep a command's words in HADOOP_USER_PARAMS; where other ones do not, every command gets the jars,
    which do nothing there.

    Args:
        data: a yarn-env.sh
        jar: the shim's jar
    """
    data = without_jar(data)
    joined = bool(data) and not data.endswith(b"\n")
    jars = shlex.quote(f"{jar}:{jar.with_name(REQUIREMENTS)}")
    lines = [
        _BEGIN + (_JOINED if joined else ""),
        'case " ${HADOOP_USER_PARAMS[*]-resourcemanager} " in',
        '  *" resourcemanager "*)',
        f'    export HADOOP_CLASSPATH={jars}"${{HADOOP_CLASSPATH:+:${{HADOOP_CLASSPATH}}}}" ;;',
        "esac",
        _END,
        "",
    ]
    return data + (b"\n" if joined else b"") + "\n".join(lines).encode()


def without_jar(data: bytes) -> bytes:
    """Return a yarn-env.sh without our lines; the rest as it is."""

    def instead(match: re.Match[bytes]) -> bytes:
        return b"" if match[2] or not match[1] else b"\n"

    return _ENV_BLOCK.sub(instead, data, count=1)


def jar_in(data: bytes) -> Path | None:
    """Return the shim's jar that our lines in a yarn-env.sh name; None without them, or if others have changed them."""
    block = _ENV_BLOCK.search(data)
    named = None if block is None else _NAMED.search(block[0])
    try:
        words = [] if named is None else shlex.split(named[1].decode("utf-8", "replace"))
    except ValueError:  # a quotation without an end
        return None
    return Path(words[0].partition(":")[0]) if words else None

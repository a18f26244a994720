"""Hadoop's configuration files on a host.

yarn-site.xml as bytes, by Hadoop's own rules, changes to it that leave every other byte as it is, and the lines in
yarn-env.sh that put the shim's jar on the ResourceManager's class path.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
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

_SPACE: Final = b" \t"
_ATTRIBUTES: Final = frozenset({"name", "value", "final"})
"""Attributes of <property> that are read like elements of the same name; Hadoop ignores others."""


@dataclass(frozen=True, slots=True)
class Property:
    """One property and its position in a file."""

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
        """The line ending of the file."""
        return "\r\n" if b"\r\n" in self.data else "\n"


@dataclass(frozen=True, slots=True)
class Setting:
    """The effective value of a key."""

    value: str
    final: bool
    file: Path
    line: int
    property: Property | None = field(default=None, compare=False)


def read_site(path: Path) -> SiteFile:
    """Read a file.

    Raises:
        UserError: it does not exist, or cannot be read and changed safely; the text has the line.
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
    reader = _Reader(path, data)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UserError(f"{path}:{error.lineno}: {expat.ErrorString(error.code)}; put the XML right first") from error
    except (LookupError, ValueError) as error:  # an unknown encoding, or one of several bytes a letter
        raise UserError(f"{path}: its encoding cannot be edited ({error}); save it as UTF-8") from error
    if not reader.seen_root:
        raise UserError(f"{path} has no <configuration>; is it a file of Hadoop's settings?")
    return SiteFile(path, data, tuple(reader.found), reader.close, reader.root_start, reader.root_end)


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
            "for anything; take <!DOCTYPE ...> out, or write Treadle's properties by hand (treadle paths conf)"
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
            f"{self._path}:{self.parser.CurrentLineNumber}: it includes {href}, which is not a file here, so "
            "that the effective values are unknown; put the file there, or write Treadle's properties by hand "
            "(treadle paths conf)"
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
    """Return where the line begins if only blanks precede a position, else the position itself."""
    start = at
    while start > 0 and data[start - 1] in _SPACE:
        start -= 1
    return start if start == 0 or data[start - 1] in b"\r\n" else at


def line_end(data: bytes, at: int) -> int:
    """Return where the next line begins if only blanks follow a position, else the position itself."""
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


BEGIN: Final = "<!-- treadle: begin. Written by treadle install; treadle uninstall takes it out. -->"
END: Final = "<!-- treadle: end -->"
_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_BLOCK: Final = re.compile(re.escape(BEGIN.encode()) + rb"(.*?)" + re.escape(END.encode()), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Replaced:
    """A value that was there and is another now."""

    name: str
    before: str
    """The bytes between the tags, each as the letter of the same number."""
    after: str


@dataclass(frozen=True, slots=True)
class SiteEdit:
    """A file's new content."""

    data: bytes
    replaced: tuple[Replaced, ...]
    added: tuple[tuple[str, str], ...]
    """Keys and values that were not in the file."""


def edit_site(file: SiteFile, wanted: Mapping[str, str]) -> SiteEdit:
    """Return a file in which keys have values: changed in place if they exist, else added in a block at the end.

    Raises:
        UserError: Hadoop would use another value, whichever value this file has.
    """
    held = settings_of(file)
    cuts: list[tuple[int, int, bytes]] = []
    replaced: list[Replaced] = []
    added: dict[str, str] = {}
    for name, value in wanted.items():
        now = held.get(name)
        if now is not None and now.value.strip() == value:
            continue
        own = now.property if now is not None and now.file == file.path else None
        if own is not None and own.editable:
            before = file.data[own.value_start : own.value_end]
            cuts.append((own.value_start, own.value_end, _text(value)))
            replaced.append(Replaced(name, before.decode("latin-1"), value))
        elif now is not None and now.final:
            raise UserError(
                f"{now.file}:{now.line}: {name} is final and is '{now.value.strip()}'; make it '{value}' there, or not "
                "final, and try again"
            )
        else:
            added[name] = value
    data = _cut(file.data, cuts)
    if added:
        data = _with_block(parse_site(file.path, data), added)
    _check(file.path, data, wanted)
    return SiteEdit(data, tuple(replaced), tuple(added.items()))


def take_back(
    path: Path, data: bytes, replaced: Sequence[Replaced], added: Sequence[tuple[str, str]]
) -> tuple[bytes, list[str]]:
    """Return a file without the changes of an edit, even if others edited it since, and remarks for the user.

    Raises:
        UserError: it is not a file of properties any more.
    """
    remarks: list[str] = []
    file = parse_site(path, data)
    data = _without_added(file, added, remarks)
    file = parse_site(path, data)
    cuts = []
    for each in replaced:
        own = [one for one in file.properties if isinstance(one, Property) and one.name == each.name and one.editable]
        ours = [one for one in own if one.value.strip() == each.after]
        cuts += [(one.value_start, one.value_end, each.before.encode("latin-1")) for one in ours]
        if not ours:
            now = f"'{own[-1].value.strip()}'" if own else "not there any more"
            remarks.append(f"{each.name} is {now}, not what Treadle wrote: left as it is")
    return _cut(data, cuts), remarks


def masked(path: Path, data: bytes, names: Collection[str]) -> bytes:
    """Return a file for a reader: values of other keys than ``names``, and comments of others, are dots.

    Raises:
        UserError: it is not a file of properties.
    """
    cuts = [
        (found.start(), found.end(), b"<!-- ... -->" + b"\n" * found[0].count(b"\n"))
        for found in _COMMENT.finditer(data)
        if not found[0].startswith(b"<!-- treadle: ")
    ]
    for each in parse_site(path, data).properties:
        if isinstance(each, Path) or each.name in names:
            continue
        start, end = (each.value_start, each.value_end) if each.editable else (each.start, each.end)
        lines = b"\n" * data.count(b"\n", start, end)
        shown = b"..." if each.editable else b'<property name="' + _text(each.name) + b'" .../>'
        cuts = [cut for cut in cuts if not start <= cut[0] < end]
        if not any(cut[0] <= start < cut[1] for cut in cuts):
            cuts.append((start, end, shown + lines))
    return _cut(data, cuts)


def _without_added(file: SiteFile, added: Sequence[tuple[str, str]], remarks: list[str]) -> bytes:
    block, wrote = _BLOCK.search(file.data), dict(added)
    cuts = []
    gone, others = set[str](), dict[str, str]()
    for each in file.properties:
        if isinstance(each, Path):
            continue
        inside = block is not None and block.start() <= each.start < block.end()
        value = each.value.strip()
        if each.name not in wrote:
            if inside:
                remarks.append(f"{each.name} is not a property of Treadle, though it was among its lines: left there")
        elif inside or value == wrote[each.name]:
            cuts.append((*whole_lines(file.data, each.start, each.end), b""))
            others.pop(each.name, None)
            gone.add(each.name)
            if value != wrote[each.name]:
                remarks.append(f"{each.name} was '{value}': taken out with what Treadle wrote")
        elif each.name not in gone:
            others[each.name] = f"{each.name} is '{value}', not what Treadle wrote: left as it is"
    remarks += others.values()
    if block is not None:
        begin, end = block.start() + len(BEGIN.encode()), block.end() - len(END.encode())
        for start, stop in ((block.start(), begin), (end, block.end())):
            cuts.append((line_start(file.data, start), line_end(file.data, stop), b""))
    return _cut(file.data, cuts)


def _with_block(file: SiteFile, added: Mapping[str, str]) -> bytes:
    newline, indent = file.newline, _indent(file)
    lines = [f"{indent}{BEGIN}"]
    for name, value in added.items():
        lines += [
            f"{indent}<property>",
            f"{indent * 2}<name>{name}</name>",
            f"{indent * 2}<value>{_text(value).decode('ascii')}</value>",
            f"{indent}</property>",
        ]
    lines.append(f"{indent}{END}")
    block = "".join(f"{line}{newline}" for line in lines).encode("ascii")
    if file.close < 0:
        start = file.data[file.root_start : file.root_end].rstrip(b"/> \t\r\n")
        opened = start + b">" + newline.encode() + block + b"</configuration>"
        return file.data[: file.root_start] + opened + file.data[file.root_end :]
    at = line_start(file.data, file.close)
    if at == file.close and not (at == 0 or file.data[at - 1] in b"\r\n"):
        block = block.removeprefix(indent.encode())
    return file.data[:at] + block + file.data[at:]


def _indent(file: SiteFile) -> str:
    for each in file.properties:
        if isinstance(each, Property):
            start = line_start(file.data, each.start)
            if start < each.start:
                return file.data[start : each.start].decode("ascii")
    return "  "


def _text(value: str) -> bytes:
    return escape(value).encode("ascii", "xmlcharrefreplace")


def _cut(data: bytes, cuts: Sequence[tuple[int, int, bytes]]) -> bytes:
    for start, end, instead in sorted(cuts, reverse=True):
        data = data[:start] + instead + data[end:]
    return data


def _check(path: Path, data: bytes, wanted: Mapping[str, str]) -> None:
    """Make sure that Hadoop will read the wanted values from a file that is about to be written."""
    held = settings_of(parse_site(path, data))
    for name, value in wanted.items():
        if name not in held or held[name].value.strip() != value:
            raise UserError(f"{path}: {name} cannot be set in a file of this form; set it to '{value}' by hand")


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

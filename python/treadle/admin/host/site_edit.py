"""Changes to a yarn-site.xml that leave every other byte as it is, and taking them back."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from treadle.admin.host.site_xml import Property, SiteFile, line_end, line_start, parse_site, settings_of, whole_lines
from treadle.errors import UserError

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

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"name": self.name, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class SiteEdit:
    """A file's new content."""

    data: bytes
    replaced: tuple[Replaced, ...]
    added: tuple[tuple[str, str], ...]
    """Keys and values that were not in the file."""


def edit_site(file: SiteFile, wanted: Mapping[str, str]) -> SiteEdit:
    """Return a file in which keys have values: changed where they stand, else in a block at the end.

    Raises:
        UserError: Hadoop would go on with another value whatever stands in this file.
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
    """Return a file that others may have edited without what an edit put there, and what was left for a reader.

    Raises:
        UserError: it is no file of properties any more.
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
        UserError: it is no file of properties.
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
                remarks.append(f"{each.name} stood among what Treadle wrote and is somebody else's: left there")
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
    """Make sure that Hadoop will see what is wanted in a file that is about to be written."""
    held = settings_of(parse_site(path, data))
    for name, value in wanted.items():
        if name not in held or held[name].value.strip() != value:
            raise UserError(f"{path}: {name} cannot be set in a file of this form; set it to '{value}' by hand")

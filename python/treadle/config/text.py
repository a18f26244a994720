"""The text of a treadle.yaml.

With every default and its description; with some sections replaced and the rest unchanged; with absolute paths of
parts' files; and its bounded history, in a folder next to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import yaml
from pydantic.fields import FieldInfo

from treadle.config.parts import DEFAULTS, PART_KINDS, PARTS, Kind, Parameters
from treadle.config.settings import IGNORE_PRIORITY, IGNORES_PRIORITY, SECTIONS, Entry, Retry, Select
from treadle.config.yaml_nodes import part_paths
from treadle.errors import UserError
from treadle.files import own_as, own_folder, read_regular, write_whole

_WIDTH = 118


def default_yaml() -> str:
    """Return a treadle.yaml with every setting at its default, and the other kinds of parts with theirs as comments."""
    lines = [
        *_comment(
            "Settings of Treadle's engine, each with its default. A file may leave out whatever it does not change."
        ),
        *_comment("Check one with `treadle policy check FILE`; `yarn rmadmin -refreshQueues` has it read again."),
        "",
        *_comment("How containers are placed: five parts, each of a kind with parameters of its own."),
        "policy:",
    ]
    for part, question in PART_KINDS.items():
        lines += _comment(question, "  ")
        lines.append(f"  {part}:")
        for name, kind in sorted(PARTS.kinds(part).items(), key=lambda item: (item[0] != DEFAULTS[part], item[0])):
            lines += _kind(kind, chosen=name == DEFAULTS[part])
    lines += [*_comment(IGNORES_PRIORITY, "  "), f"  {IGNORE_PRIORITY}: false"]
    for section, model in SECTIONS.items():
        lines += ["", *_comment((model.__doc__ or "").partition("\n")[0]), f"{section}:", *_fields(model, "  ")]
    lines += ["", *_engines()]
    lines += ["", *_comment("The seed of random draws: equal seeds and equal events give equal proposals."), "seed: 0"]
    return "\n".join(lines) + "\n"


def _engines() -> list[str]:
    """Return an entry of `engines:` with every default, as a comment: without the section there is one engine."""
    text = (
        "Several engines on one cluster (docs/several-engines.md), in order; the first whose select matches an "
        "application serves it. Names are yours. Sections of this file that stand in an entry are that engine's."
    )
    entry = [*_fields(Select, "      "), *_comment("Sections of this file, as policy: {order: {kind: srpt}}", "    ")]
    lines = ["engines:", "  service:", "    select:", *entry]
    for name, field in Entry.keys().items():
        if name == "retry":
            lines += [*_comment(field.description or "", "    "), "    retry:", *_fields(Retry, "      ")]
        elif name != "select":
            lines += _field(name, field, "    ")
    lines += [*_comment("The last entry serves all that is left.", "  "), "  batch: {}"]
    return [*_comment(text), *(f"# {line}" for line in lines)]


def _kind(kind: Kind, *, chosen: bool) -> list[str]:
    summary = _comment(kind.summary, "    ") if kind.summary else []
    needed = [name for name, field in kind.parameters.keys().items() if field.is_required()]
    if needed:
        needs = f"Needs {' and '.join(needed)}; see docs/write-a-policy.md."
        return [f"    # or kind: {kind.name}", *_comment(kind.summary, "    #   "), *_comment(needs, "    #   ")]
    fields = _fields(kind.parameters, "    ")
    if chosen:
        return [*summary, f"    kind: {kind.name}", *fields]
    # "or" marks alternatives, in contrast to comments.
    return [f"    # or kind: {kind.name}", *(line.replace("    ", "    #   ", 1) for line in summary + fields)]


def _fields(model: type[Parameters], indent: str) -> list[str]:
    lines: list[str] = []
    for name, field in model.keys().items():
        lines += _field(name, field, indent)
    return lines


def _field(name: str, field: FieldInfo, indent: str) -> list[str]:
    default = field.get_default(call_default_factory=True)
    plain = list(default) if isinstance(default, tuple) else default
    value = yaml.safe_dump(plain, default_flow_style=True)
    line = f"{indent}{name}: {value.removesuffix(chr(10)).removesuffix(chr(10) + '...')}"
    return [*_comment(field.description or "", indent), line]


def _comment(text: str, indent: str = "") -> list[str]:
    return [f"{indent}# {line}" for line in wrap(text, _WIDTH - len(indent))]


def section_values(text: str) -> dict[str, Any]:
    """Return the values of each section of a valid text."""
    value = yaml.safe_load(text)
    return dict(value) if isinstance(value, dict) else {}


def with_sections(file: str, text: str, other: str, names: Iterable[str]) -> str:
    """Return a text with some sections replaced by another text's; a new section is appended.

    A section that the other text lacks stays, except for ``policy``, which is removed: all its parts are defaults.

    Args:
        file: its name in errors
        text: the text to change
        other: the source of the sections
        names: the sections

    Raises:
        UserError: the text is not in a form that allows it.
    """
    names = tuple(names)
    for name in names:
        text = _with_section(file, text, other, name)
    wanted, given = section_values(other), section_values(text)
    if any(given.get(name) != wanted.get(name) for name in names if name in wanted):
        raise UserError(f"{file}: its sections cannot be separated; write it as `key: value` lines from the margin on")
    return text


def _with_section(file: str, text: str, other: str, name: str) -> str:
    new = _lines_of(other, name)
    if not new and name != "policy":
        return text
    blocks = _blocks(file, text)
    is_null = not blocks and yaml.compose(text, Loader=yaml.SafeLoader) is not None
    lines = [] if is_null else text.splitlines(keepends=True)
    if name in blocks:
        lines[blocks[name]] = new
        return "".join(lines)
    at = max((block.stop for block in blocks.values()), default=len(lines))
    if at and not lines[at - 1].endswith("\n"):
        lines[at - 1] += "\n"
    return "".join([*lines[:at], *new, *lines[at:]])


def _lines_of(text: str, name: str) -> list[str]:
    """Return the lines of a section, empty if there is none."""
    try:
        block = _blocks("", text).get(name)
    except UserError:  # one line in braces
        values = section_values(text)
        written = yaml.safe_dump({name: values[name]}, sort_keys=False) if name in values else ""
        return written.splitlines(keepends=True)
    if block is None:
        return []
    lines = text.splitlines(keepends=True)[block]
    return [*lines[:-1], lines[-1].rstrip("\r\n") + "\n"]


def _blocks(file: str, text: str) -> dict[str, slice]:
    """Return the lines of each section, from 0; a text that is only ``null`` has none.

    Raises:
        UserError: the text is not a block of `key: value` lines.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == "tag:yaml.org,2002:null"):
        return {}
    if not isinstance(root, yaml.MappingNode) or root.flow_style or root.start_mark.column:
        place = f"{file}:{root.start_mark.line + 1}: " if file else ""
        raise UserError(
            f"{place}the sections of a treadle.yaml must be `key: value` lines from the margin on, not in braces"
        )
    lines, starts = text.splitlines(), [key.start_mark.line for key, _ in root.value]
    ends = [*starts[1:], root.end_mark.line + (root.end_mark.column > 0)]
    names = (str(key.value) for key, _ in root.value)
    return {name: slice(start, _end(lines, start, end)) for name, start, end in zip(names, starts, ends, strict=True)}


def _end(lines: list[str], start: int, end: int) -> int:
    """Return where a section ends: indented comments belong to it, those at the margin to the next section."""
    last = max(at for at in range(start, end) if lines[at].strip() and not lines[at].lstrip().startswith("#"))
    own = takewhile(lambda at: not lines[at].startswith("#"), range(last, end))
    return 1 + max(at for at in own if lines[at].strip())


def with_absolute_paths(text: str, folder: Path) -> str:
    """Return the text of a treadle.yaml with absolute paths of parts' files, so that it may be moved.

    ``folder`` is the base of relative ones. The text must be valid.
    """
    for node in sorted(part_paths(text), key=lambda node: node.start_mark.index, reverse=True):
        path = json.dumps(str(folder.absolute() / node.value), ensure_ascii=False)
        text = text[: node.start_mark.index] + path + text[node.end_mark.index :]
    return text


SUFFIX: Final = ".history"
"""Suffix of the history folder of a treadle.yaml."""

VERSIONS_MAX: Final = 50
"""Maximum number of versions; the oldest are dropped first."""

BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """An earlier content of a treadle.yaml."""

    number: int
    """Increasing number, never reused."""
    until: str
    """When it was replaced: in UTC, ISO 8601."""
    policy: str
    """The kinds of its parts."""
    replaced_by: str
    """Description of its replacement."""
    text: str


class History:
    """The history of one treadle.yaml."""

    def __init__(self, target: Path) -> None:
        """Open the history of a file; ``target`` has no symbolic link in it."""
        self.folder = target.with_name(target.name + SUFFIX)

    def versions(self) -> list[Version]:
        """Return the versions, oldest first; damaged ones are skipped."""
        versions = []
        for file in self._files():
            with suppress(OSError, ValueError, TypeError, RecursionError):
                content = read_regular(file, BYTES_MAX)
                if len(content) <= BYTES_MAX:
                    versions.append(Version(**json.loads(content)))
        return sorted(versions, key=lambda version: version.number)

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
        """Store a content that is about to be replaced, with the read permissions of the file itself.

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
        """Remove a version that was stored for a change that did not happen."""
        (self.folder / f"{version.number:06}.json").unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(file for file in self.folder.glob("*.json") if file.stem.isdigit())

"""Sections of a treadle.yaml as text: one is put in another's place, and all else stays as it was written.

The marks of PyYAML's nodes give where a section begins and ends. A round trip through a library that keeps
comments would lose those that stand between two sections, since such a library takes them for a part of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from treadle.errors import UserError


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines of a section, from 0, the end excluded."""

    begin: int
    end: int


def section_values(text: str) -> dict[str, Any]:
    """Return what is in a text by section; the text must be one that can be read."""
    value = yaml.safe_load(text)
    return dict(value) if isinstance(value, dict) else {}


def without_section(file: str, text: str, name: str) -> str:
    """Return a text with empty lines in a section's place, so that all others stand where they stood.

    Args:
        file: what errors call the text
        text: the text
        name: which section

    Raises:
        UserError: the text is no block of `key: value` lines.
    """
    lines = text.splitlines(keepends=True)
    block = _blocks(file, text).get(name)
    if block is not None:
        lines[block.begin : block.end] = ["\n"] * (block.end - block.begin)
    return "".join(lines)


def with_sections(file: str, text: str, other: str, names: Iterable[str]) -> str:
    """Return a text with some of its sections as they are written in another; a section that it lacks comes last.

    A section that the other text lacks stays as it is, but for ``policy``, which then goes: all its parts are defaults.

    Args:
        file: what errors call the text
        text: what is changed
        other: where the sections are taken from
        names: which sections

    Raises:
        UserError: the text is not written in a way that allows it.
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
    lines = text.splitlines(keepends=True) if blocks or _is_empty(text) else []
    if name in blocks:
        lines[blocks[name].begin : blocks[name].end] = new
        return "".join(lines)
    at = max((block.end for block in blocks.values()), default=len(lines))
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
    lines = text.splitlines(keepends=True)[block.begin : block.end]
    return [*lines[:-1], lines[-1].rstrip("\r\n") + "\n"]


def _is_empty(text: str) -> bool:
    """Say whether there is nothing but comments in a text."""
    return yaml.compose(text, Loader=yaml.SafeLoader) is None


def _blocks(file: str, text: str) -> dict[str, _Block]:
    """Return where each section is; a text that is only ``null`` has none.

    Raises:
        UserError: the text is no block of `key: value` lines.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == "tag:yaml.org,2002:null"):
        return {}
    if not isinstance(root, yaml.MappingNode) or root.flow_style or root.start_mark.column:
        place = f"{file}:{root.start_mark.line + 1}: " if file else ""
        raise UserError(
            f"{place}the sections of a treadle.yaml must be `key: value` lines from the margin on, not in braces"
        )
    lines = text.splitlines()
    found = {}
    for key, value in root.value:
        end = max(_last_line(value), key.end_mark.line) + 1
        found[str(key.value)] = _Block(key.start_mark.line, _with_comments(lines, end))
    return found


def _last_line(node: yaml.Node) -> int:
    """Return the last line of a node, from 0. A block's own mark stands at whatever comes after it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        children = [child for item in node.value for child in (item if isinstance(item, tuple) else (item,))]
        return max((_last_line(child) for child in children), default=node.start_mark.line)
    ends = int(node.end_mark.line)
    return ends - 1 if isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"} else ends


def _with_comments(lines: list[str], end: int) -> int:
    """Return the end with the indented comments after it, which belong to the section above them."""
    for at in range(end, len(lines)):
        line = lines[at]
        if not line.strip():
            continue
        if not (line[0].isspace() and line.lstrip().startswith("#")):
            break
        end = at + 1
    return end

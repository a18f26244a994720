"""Tables in Markdown, and the meanings that enumerations say of their members."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from enum import Enum


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a ``|`` in a cell stays one."""
    lines = [list(heading), ["---"] * len(heading), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """Return a text as one line of a table has it; its code in single backquotes, as Markdown has it."""
    plain = re.sub(r"\s+", " ", text.replace("``", "`")).strip()
    return plain.replace("|", r"\|")


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def meanings(kind: type[Enum]) -> dict[str, str]:
    """Return what the source of an enumeration says below each member, by the member's name.

    Raises:
        ValueError: of a member nothing is said.
    """
    (defined,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(defined, ast.ClassDef)
    found = {}
    for line, after in zip(defined.body, [*defined.body[1:], None], strict=True):
        if isinstance(line, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            (target,) = line.targets
            assert isinstance(target, ast.Name)
            found[target.id] = cell(str(after.value.value))
    missing = [member.name for member in kind if member.name not in found]
    if missing:
        raise ValueError(f"{kind.__name__}: nothing says what {', '.join(missing)} means; write a docstring below it")
    return found

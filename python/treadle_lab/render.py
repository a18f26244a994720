"""The renderers of results: a table on the console, a table in Markdown, a document in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text; the first column names the row."""

    title: str
    heading: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def show(table: Table, console: Console) -> None:
    """Print a table on a console."""
    shown = RichTable(title=table.title, title_justify="left")
    for at, name in enumerate(table.heading):
        shown.add_column(name, justify="right" if at else "left")
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)


def markdown(table: Table) -> str:
    """Return a table in Markdown, without its title."""
    rule = ("---",) * len(table.heading)
    return "".join(f"| {' | '.join(row)} |\n" for row in (table.heading, rule, *table.rows))


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document of rows as JSON, a line for each group of rows."""
    head = {key: value for key, value in document.items() if key != "rows"}
    lines = ",\n".join(json.dumps(group, separators=(",", ":")) for group in document["rows"])
    return f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n]\n}}\n'

"""The style of all tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table


def empty_table(
    title: str, texts: Iterable[str], figures: Iterable[str] = (), more: Iterable[str] = (), **options: Any
) -> Table:
    """Return a table without rows: columns of texts, of figures, which end at the right, and of texts again.

    Args:
        title: above it, at the left
        texts: headings of the first columns
        figures: headings of the next ones
        more: headings of the last ones, texts
        options: of `rich.table.Table`
    """
    table = Table(title=title, title_justify="left", **options)
    for name in texts:
        table.add_column(name, overflow="fold")  # a key to change is shown as a whole
    for name in figures:
        table.add_column(name, justify="right")
    for name in more:
        table.add_column(name, overflow="fold")
    return table


def facts_table(facts: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and their values, without a heading."""
    table = empty_table("", ("", ""), (), show_header=False)
    for fact in facts:
        table.add_row(*fact)
    return table

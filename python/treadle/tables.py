"""Tables of figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table


def empty_table(title: str, texts: Iterable[str], figures: Iterable[str], **options: Any) -> Table:
    """Return a table without rows: columns of texts first, then columns of figures, which end at the right.

    Args:
        title: above it, at the left
        texts: headings of the first columns
        figures: headings of the others
        options: of `rich.table.Table`
    """
    table = Table(title=title, title_justify="left", **options)
    for name in texts:
        table.add_column(name)
    for name in figures:
        table.add_column(name, justify="right")
    return table

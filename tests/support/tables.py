"""Tables of results in documents that commands have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rows_of(document: Mapping[str, Any], table: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the cells of a table by column, by what names their row; of columns that are called alike the last."""
    found = document["tables"][table]
    names = found["names"]
    return {tuple(row[:names]): dict(zip(found["heading"], row, strict=True)) for row in found["rows"]}


def mean_of(document: Mapping[str, Any], table: str, column: str, *names: str) -> Any:
    """Return the mean of a figure."""
    return rows_of(document, table)[names][column]["mean"]

"""Results as rows, a value each: intervals over seeds, documents that are kept, tables on a console or a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from treadle.simulate.comparison import Interval, student

DIGITS: Final = 5
"""Significant digits of a kept value."""


@dataclass(frozen=True, slots=True)
class Row:
    """One value."""

    figure: str
    """The quantity."""
    series: str
    """A policy, a scheme: a line of a plot."""
    x: str
    """The point at which it was measured: a workload and its load."""
    draw: int
    """The seed; rows of one draw can be paired."""
    value: float
    unit: str
    reference: float | None = None
    """The value that it is compared with: a paper's, or the baseline's on the same draw."""


def as_document(rows: Iterable[Row], baseline: str = "") -> dict[str, Any]:
    """Return rows as JSON takes them, those of an x and a series together.

    Args:
        rows: the rows
        baseline: the series that has the references; empty: each row's reference is kept
    """
    units: dict[str, str] = {}
    groups: dict[tuple[str, str], dict[str, dict[int, Row]]] = {}
    for row in rows:
        units[row.figure] = row.unit
        groups.setdefault((row.x, row.series), {}).setdefault(row.figure, {})[row.draw] = row
    return {
        "baseline": baseline,
        "units": units,
        "rows": [_group(*key, figures, references=not baseline) for key, figures in groups.items()],
    }


def rows_of(document: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a document that `as_document` made."""
    found = [row for group in document["rows"] for row in _ungrouped(group, document["units"])]
    return referred(found, document["baseline"]) if document["baseline"] else found


def referred(rows: Sequence[Row], baseline: str) -> list[Row]:
    """Return rows whose references are the values of the series ``baseline`` on the same figure, x and draw."""
    values = {(row.figure, row.x, row.draw): row.value for row in rows if row.series == baseline}
    return [replace(row, reference=values.get((row.figure, row.x, row.draw))) for row in rows]


def _group(x: str, series: str, figures: Mapping[str, Mapping[int, Row]], *, references: bool) -> dict[str, Any]:
    draws = sorted({draw for each in figures.values() for draw in each})

    def column(field: str) -> dict[str, list[float | None]]:
        return {
            figure: [_kept(getattr(each[draw], field)) if draw in each else None for draw in draws]
            for figure, each in figures.items()
        }

    group = {"x": x, "series": series, "draws": draws, "values": column("value")}
    return group | ({"references": column("reference")} if references else {})


def _ungrouped(group: Mapping[str, Any], units: Mapping[str, str]) -> list[Row]:
    nothing = [None] * len(group["draws"])
    return [
        Row(figure, group["series"], group["x"], draw, value, units[figure], reference)
        for figure, values in group["values"].items()
        for draw, value, reference in zip(
            group["draws"], values, group.get("references", {}).get(figure, nothing), strict=True
        )
        if value is not None
    ]


def _kept(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(f"{value:.{DIGITS}g}")


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text; the first columns name the row."""

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    """The columns that name it; the others are figures, which end at the right."""


def show(table: Table, console: Console) -> None:
    """Print a table on a console."""
    shown = RichTable(title=table.title, title_justify="left")
    for at, name in enumerate(table.heading):
        shown.add_column(name, justify="left" if at < table.names else "right")
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


def plain(value: Any) -> Any:
    """Return numbers and tables of intervals as JSON takes them: keys are texts, what is not finite is None."""
    if isinstance(value, Interval):
        return value.as_json()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def slope_of(lines: Sequence[Sequence[tuple[float, float]]]) -> Interval | None:
    """Return the slope that lines of points (x, y) have in common, each at a level of its own, by least squares.

    None if no line has two different x. There is no interval if all points are needed to draw the lines.
    """
    above = below = rest = 0.0
    fitted = [np.asarray(points, np.float64).T for points in lines]
    centred = [(x - x.mean(), y - y.mean()) for x, y in fitted]
    for x, y in centred:
        above += float((x * y).sum())
        below += float((x * x).sum())
    if below == 0.0:
        return None
    slope = above / below
    for x, y in centred:
        rest += float(((y - slope * x) ** 2).sum())
    degrees = sum(map(len, lines)) - len(lines) - 1
    if degrees < 1:
        return Interval(slope, slope, slope)
    half = student(degrees) * sqrt(rest / degrees / below)
    return Interval(slope, slope - half, slope + half)

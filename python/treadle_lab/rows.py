"""Results: rows with one value each; tables of their figures over draws; renderers for console, pages and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Final

import numpy as np
from rich.console import Console

from treadle.simulate.comparison import Interval, interval_of, interval_of_ratio
from treadle.tables import empty_table

SPLIT: Final = "; "  # between the settings of an x
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
    """The point at which it was measured, such as a workload and its load; several settings are joined by `SPLIT`."""
    draw: int
    """The seed; rows of one draw can be paired."""
    value: float
    unit: str
    reference: float | None = None
    """The value to compare with: a paper's, or the baseline's on the same draw."""
    over: float | None = None
    """Divisor of the value, on the same draw: the figure is the mean of values over the mean of these."""


def as_document(rows: Iterable[Row], baseline: str = "") -> dict[str, Any]:
    """Return rows as JSON takes them, grouped by x and series.

    Args:
        rows: the rows
        baseline: the series whose values are the references; empty: each row's reference is stored
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
    rows = [row for group in document["rows"] for row in _ungrouped(group, document["units"])]
    return referred(rows, document["baseline"]) if document["baseline"] else rows


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
    if any(row.over is not None for each in figures.values() for row in each.values()):
        group["over"] = column("over")
    return group | ({"references": column("reference")} if references else {})


def _ungrouped(group: Mapping[str, Any], units: Mapping[str, str]) -> list[Row]:
    draws = group["draws"]

    def column(field: str, figure: str) -> list[float | None]:
        return list(group.get(field, {}).get(figure, [None] * len(draws)))

    return [
        Row(figure, group["series"], group["x"], draw, value, units[figure], reference, over)
        for figure, values in group["values"].items()
        for draw, value, reference, over in zip(
            draws, values, column("references", figure), column("over", figure), strict=True
        )
        if value is not None
    ]


def _kept(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(f"{value:.{DIGITS}g}")


Cell = str | float | Interval | None
"""A text, a number, or a figure with its interval; None: unknown."""


@dataclass(frozen=True, slots=True)
class Table:
    """Cells; the first columns name the row."""

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    names: int = 1
    """Number of leading columns that name the row; the others are figures, aligned to the right."""


def number(value: float) -> str:
    """Return a number with three significant digits, trailing zeros included; from 1,000 a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".removesuffix(".")


UNKNOWN: Final = "\N{EN DASH}"


def text(cell: Cell) -> str:
    """Return a cell as tables show it; an unknown one is a dash."""
    if isinstance(cell, str):
        return cell
    found = cell if isinstance(cell, Interval) else Interval(*(cell,) * 3) if cell is not None else None
    if found is None or not isfinite(found.mean):
        return UNKNOWN
    uncertain = "" if found.low == found.high else f" ({number(found.low)} to {number(found.high)})"
    return number(found.mean) + uncertain


def show(table: Table, console: Console) -> None:
    """Print a table on a console."""
    shown = empty_table(table.title, table.heading[: table.names], table.heading[table.names :])
    for row in table.rows:
        shown.add_row(*map(text, row))
    console.print(shown)


def markdown(table: Table) -> str:
    """Return a table in Markdown, without its title."""
    rule = ("---",) * len(table.heading)
    return "".join(f"| {' | '.join(map(text, row))} |\n" for row in (table.heading, rule, *table.rows))


def table_of(document: Mapping[str, Any]) -> Table:
    """Return a table from its form in JSON (`plain`)."""
    rows = [[Interval(**each) if isinstance(each, Mapping) else each for each in row] for row in document["rows"]]
    return Table(document["title"], document["heading"], rows, document["names"])


RATIO: Final = "ratio"
"""The unit of values divided draw by draw: the figure is the geometric mean."""


def figure_of(rows: Sequence[Row]) -> Interval:
    """Return the figure of one quantity's rows over draws: their mean, or the ratio of means."""
    values, over = [row.value for row in rows], [row.over for row in rows if row.over is not None]
    if rows and rows[0].unit == RATIO:
        return Interval(*np.exp(interval_of(np.log(values))).tolist())
    return interval_of_ratio(values, over) if over else interval_of(values)


PAPER: Final = "paper"


def pivot(title: str, rows: Iterable[Row], names: Sequence[str], *, across: str = "figure") -> Table:
    """Return a table of rows' figures over draws, with the references of each in an adjacent column.

    Args:
        title: of the table
        rows: the rows; missing ones leave cells empty
        names: headings of the columns that name a table's row: the series, with the settings of x before it
        across: content of the columns: a figure each, or an x each
    """
    cells: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    columns: dict[str, bool] = {}  # whether a row of it has a reference
    for row in rows:
        column = getattr(row, across)
        columns[column] = columns.get(column, False) or row.reference is not None
        cells.setdefault((*row.x.split(SPLIT), row.series)[-len(names) :], {}).setdefault(column, []).append(row)
    heading = [name for column, referenced in columns.items() for name in (column, *[PAPER] * referenced)]
    return Table(
        title,
        (*names, *heading),
        [(*key, *(cell for each in columns.items() for cell in _cells(found, *each))) for key, found in cells.items()],
        len(names),
    )


def _cells(found: Mapping[str, Sequence[Row]], column: str, referenced: bool) -> Iterator[Cell]:
    own = found.get(column, ())
    yield figure_of(own) if own else ""
    if referenced:
        known = next((row.reference for row in own if row.reference is not None), None)
        yield "" if known is None else f"{known:g}"


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document of rows as JSON, a line for each group of rows."""
    head = {key: value for key, value in document.items() if key != "rows"}
    lines = ",\n".join(json.dumps(group, separators=(",", ":")) for group in document["rows"])
    return f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n]\n}}\n'


@dataclass(frozen=True, slots=True)
class Layout:
    """The conversion of rows to a table: see `pivot`."""

    title: str
    names: tuple[str, ...] = ("",)
    across: str = "figure"


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an experiment."""

    layouts: Mapping[str, Layout]
    """By the name of a table."""
    rows: Mapping[str, Sequence[Row]]
    """By the name of their table; tables without a run have none."""
    facts: dict[str, Any]
    """Other content of the document, including its seeds."""
    others: Mapping[str, Table] = field(default_factory=dict)
    """Tables that are not made from rows, by name."""

    @property
    def tables(self) -> dict[str, Table]:
        """The tables that have rows, by name."""
        found = {
            name: pivot(layout.title, self.rows[name], layout.names, across=layout.across)
            for name, layout in self.layouts.items()
            if self.rows.get(name)
        }
        return found | {name: table for name, table in self.others.items() if table.rows}

    def figure(self, table: str, figure: str, series: str = "", x: str = "") -> Interval:
        """Return a figure of a series over draws; NaN without any."""
        return figure_of([row for row in self.rows[table] if (row.figure, row.series, row.x) == (figure, series, x)])

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON takes it: facts, tables as they are shown, and rows."""
        rows = [row for each in self.rows.values() for row in each]
        found: dict[str, Any] = plain(self.facts)
        return found | {"tables": plain(self.tables)} | as_document(rows)


def plain(value: Any) -> Any:
    """Return numbers, tables and mappings as JSON values: keys are texts, NaN and infinity are None."""
    if isinstance(value, Interval):
        return value.as_json()
    if isinstance(value, Table):
        return {"title": value.title, "heading": plain(value.heading), "names": value.names, "rows": plain(value.rows)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value

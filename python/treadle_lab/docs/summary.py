"""The summary of all results, a line a mechanism: the paper's result, the result here, and why they differ."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from treadle.errors import UserError
from treadle_lab.docs.kept import KeptResult, read_kept
from treadle_lab.docs.tables import figure, interval, markdown_table

SOURCE: Final = "summary.yaml"
PAGE: Final = "summary.md"
TEXT_MARK: Final = "*"

HEAD: Final = """\
<!-- printed by treadle results render from summary.yaml and kept results: change those, not this page -->

# Results at a glance

What the papers report, and the results here. Pages say how, and what was chosen where a paper is silent. Intervals
are of 95 % over seeds or draws unless a page says otherwise.

"""

MARKED: Final = """
\\* The figures stand in the page's text alone; what the command wrote was not kept.
"""


class Row(BaseModel):
    """A line of summary.yaml. Figures are from a kept result (``kept`` and ``at``), or are text (``here``)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mechanism: str
    page: str
    """The page about it, relative to the folder of the results."""
    faithful: str
    paper: str
    kept: str = ""
    at: str = ""
    """The place of an interval in the figures, keys and places in lists joined by dots; keys may have dots too."""
    here: str = ""
    interval: str = ""
    why: str = ""

    @model_validator(mode="after")
    def _has_figures_from_one_place(self) -> Row:
        if bool(self.kept) == bool(self.here) or bool(self.kept) != bool(self.at):
            raise ValueError("give kept and at, or here")
        if self.kept and self.interval:
            raise ValueError("the interval is that of the kept result; leave interval out")
        return self


def summary(folder: Path) -> str:
    """Return the summary of the results in a folder, in Markdown.

    Raises:
        UserError: summary.yaml or a kept result that it names cannot be used.
    """
    rows = read_rows(folder / SOURCE)
    kept = cache(partial(read_kept, folder))
    heading = ("mechanism", "faithful", "paper", "here", "interval", "why")
    lines = []
    for row in rows:
        here, uncertain = _figures(row, kept(row.kept)) if row.kept else (f"{row.here} {TEXT_MARK}", row.interval)
        lines.append((f"[{row.mechanism}]({row.page})", row.faithful, row.paper, here, uncertain, row.why))
    text = MARKED if any(row.here for row in rows) else ""
    origins = "".join(f"\n{kept(name).origin()}\n" for name in sorted({row.kept for row in rows if row.kept}))
    return HEAD + markdown_table(heading, lines).replace(f" {TEXT_MARK} |", f" \\{TEXT_MARK} |") + text + origins


def read_rows(file: Path) -> list[Row]:
    """Return the lines of a summary.yaml.

    Raises:
        UserError: it is not there, or a line is wrong.
    """
    try:
        found = list(yaml.safe_load(file.read_text("utf-8")))
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise UserError(f"{file}: no summary can be read: {error}") from None
    return [_row(file, number, row) for number, row in enumerate(found, 1)]


def _row(file: Path, number: int, row: Any) -> Row:
    try:
        return Row.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        name = row.get("mechanism", "without a mechanism") if isinstance(row, dict) else "no mapping"
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{file}: entry {number} ({name}): {where}{': ' if where else ''}{first['msg']}") from None


def _figures(row: Row, kept: KeptResult) -> tuple[str, str]:
    """Return a mean and its interval."""
    found: Any = kept.figures
    key = ""
    for part in row.at.split("."):
        key = f"{key}.{part}" if key else part  # a key may have dots of its own, as a leaf's name has
        if isinstance(found, list):
            found = {str(place): each for place, each in enumerate(found)}
        if isinstance(found, Mapping) and key in found:
            found, key = found[key], ""
    if key:
        raise UserError(f"{SOURCE}: {row.mechanism}: {row.kept} has no figures at {row.at}: there is no {key}")
    try:
        figures = interval(found)
    except (KeyError, TypeError):
        raise UserError(f"{SOURCE}: {row.mechanism}: {row.at} of {row.kept} is no interval") from None
    return figure(
        figures.mean
    ), "" if figures.low == figures.high else f"{figure(figures.low)} to {figure(figures.high)}"

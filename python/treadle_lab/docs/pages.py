"""Pages of results: their tables, and the summary, from the stored output of commands.

`python -m treadle_lab.docs.pages docs/results` writes the pages. With more arguments `NAME COMMAND...`, such as
`slearn-model lab reproduce slearn --model`, it first runs `treadle COMMAND...` and stores the output under that name.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from treadle import __version__
from treadle.config.yaml_nodes import YamlDocument, details_of, explained, text_of
from treadle.errors import ConfigError, UserError
from treadle.files import write_whole
from treadle.simulate.comparison import Interval
from treadle_lab.rows import Table, figure_of, markdown, number, rows_of, table_of

FOLDER: Final = "kept"
"""Folder of kept results (JSON, a file each), next to the pages that show them."""


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The result of a command."""

    name: str
    command: str
    """The command line, without ``--out``."""
    day: str
    """The day on which it ended, UTC."""
    machine: str
    version: str
    """Of Treadle."""
    note: str
    """A remark for readers of the figures, such as on the load of the machine."""
    figures: Mapping[str, Any]
    """The command's output with ``--out``."""

    @property
    def seeds(self) -> str:
        """The seeds as text; empty if the figures name none."""
        seeds = self.figures.get("seeds")
        if not isinstance(seeds, list) or not seeds:
            return ""
        whole = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
        return f"{seeds[0]} to {seeds[-1]}" if whole and len(seeds) > 1 else ", ".join(map(str, seeds))

    def origin(self) -> str:
        """Return where the figures come from, in Markdown, for a page next to the folder of kept results."""
        facts = [f"seeds {self.seeds}" if self.seeds else "", self.day, self.machine, self.note]
        facts_text = "; ".join(fact for fact in facts if fact)
        return f"`{self.command}`: {facts_text} ([figures]({FOLDER}/{self.name}.json))."


def run_and_keep(name: str, arguments: Sequence[str], folder: Path) -> None:
    """Run a command of ``treadle`` that has ``--out``, and keep its output, with an empty note.

    Args:
        name: of the kept result
        arguments: the command, without ``--out``
        folder: of the pages; the result is in ``kept`` below it

    Raises:
        UserError: the command fails, writes no figures, or they cannot be kept; nothing is then changed.
    """
    if not name.replace("-", "").isalnum():
        raise UserError(f"{name!r}: a result is named by letters, digits and -, as slearn-model")
    if "--out" in arguments:
        raise UserError("leave --out away: the figures are kept in a file of their own")
    with tempfile.TemporaryDirectory(prefix="treadle-results-") as work:
        figures = Path(work, "figures.json")
        done = subprocess.run([sys.executable, "-P", "-m", "treadle", *arguments, "--out", str(figures)], check=False)
        if done.returncode != 0:
            raise UserError(f"treadle {' '.join(arguments)} ended with exit code {done.returncode}; nothing was kept")
        if not figures.is_file():
            raise UserError(f"treadle {' '.join(arguments)} wrote no figures; nothing was kept")
        document = json.loads(figures.read_text("utf-8"))
    if not isinstance(document, dict):
        document = {"rows": document}
    command = " ".join(["treadle", *arguments])
    day = datetime.now(UTC).date().isoformat()
    _write(folder / FOLDER / f"{name}.json", KeptResult(name, command, day, machine(), __version__, "", document))


def read_kept(folder: Path, name: str) -> KeptResult:
    """Return a kept result of the pages in a folder.

    Raises:
        UserError: it is missing or invalid.
    """
    file = folder / FOLDER / f"{name}.json"
    try:
        document = json.loads(file.read_text("utf-8"))
        return KeptResult(name, **document)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{file}: no kept result ({error}); python -m treadle_lab.docs.pages {folder} {name} COMMAND writes one"
        ) from None


def machine() -> str:
    """Return the machine's architecture, cores and Python, on which figures may depend; without its name."""
    cores = len(os.sched_getaffinity(0))
    return f"{platform.machine()}, {cores} cores, Python {platform.python_version()}"


def _write(file: Path, result: KeptResult) -> None:
    document = asdict(result)
    del document["name"]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(document, indent=1) + "\n", lambda opened: os.fchmod(opened, 0o644))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; name a folder that can be written") from None


SOURCE: Final = "summary.yaml"
PAGE: Final = "summary.md"
TEXT_MARK: Final = "*"  # marks figures that were typed into summary.yaml

HEAD: Final = """\
<!-- printed by python -m treadle_lab.docs.pages from summary.yaml and kept results: change those, not this page -->

# Results at a glance

The papers' results and those measured here. Pages say how, and name our choices where a paper is silent. Intervals
are of 95 % over seeds or draws unless a page says otherwise.

"""

MARKED: Final = """
\\* The figures stand in the page's text alone; the command's output was not kept.
"""


class SummaryRow(BaseModel):
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
    def _has_figures_from_one_place(self) -> SummaryRow:
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
        here, uncertain = _kept_text(row, kept(row.kept)) if row.kept else (f"{row.here} {TEXT_MARK}", row.interval)
        lines.append((f"[{row.mechanism}]({row.page})", row.faithful, row.paper, here, uncertain, row.why))
    text = MARKED if any(row.here for row in rows) else ""
    origins = "".join(f"\n{kept(name).origin()}\n" for name in sorted({row.kept for row in rows if row.kept}))
    return HEAD + markdown(Table("", heading, lines)).replace(f" {TEXT_MARK} |", f" \\{TEXT_MARK} |") + text + origins


def read_rows(file: Path) -> list[SummaryRow]:
    """Return the lines of a summary.yaml.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong, with its line.
    """
    document = YamlDocument(str(file), text_of(file))
    try:
        return TypeAdapter(list[SummaryRow]).validate_python(document.value)
    except ValidationError as error:
        problems = [document.problem(each["loc"], explained(each, "CONTRIBUTING.md")) for each in details_of(error)]
        raise ConfigError(str(file), problems) from None


def _kept_text(row: SummaryRow, kept: KeptResult) -> tuple[str, str]:
    """Return the mean and the interval of a line's kept figures, as text."""
    rows = rows_of(kept.figures) if "units" in kept.figures else []
    chosen = [each for each in rows if row.at == f"{each.figure} of {each.series}"]
    figures = figure_of(chosen) if chosen else _interval_at(row, kept)
    uncertain = "" if figures.low == figures.high else f"{number(figures.low)} to {number(figures.high)}"
    return number(figures.mean), uncertain


def _interval_at(row: SummaryRow, kept: KeptResult) -> Interval:
    """Return the interval at a line's path of keys."""
    found: Any = kept.figures
    key = ""
    for part in row.at.split("."):
        key = f"{key}.{part}" if key else part  # a key may contain dots, such as a leaf's name
        if isinstance(found, list):
            found = {str(place): each for place, each in enumerate(found)}
        if isinstance(found, Mapping) and key in found:
            found, key = found[key], ""
    if key:
        raise UserError(f"{SOURCE}: {row.mechanism}: {row.kept} has no figures at {row.at}: there is no {key}")
    try:
        return Interval(**found)
    except (KeyError, TypeError):
        raise UserError(f"{SOURCE}: {row.mechanism}: {row.at} of {row.kept} is not an interval") from None


END: Final = "<!-- to here -->"
_BLOCK: Final = re.compile(r"<!-- results: (\S+) of (\S+) -->\n.*?<!-- to here -->", re.DOTALL)
_OPEN: Final = re.compile(r"<!-- results:[^\n]*")


def rendered(page: Path) -> str:
    """Return a page with its tables from kept results, each below a line that says where it comes from.

    A table's place begins with ``<!-- results: TABLE of NAME -->`` and ends with ``<!-- to here -->``.

    Raises:
        UserError: a mark cannot be read, there is no such table, or no such result.
    """
    text = page.read_text("utf-8")
    if len(_OPEN.findall(text)) != len(_BLOCK.findall(text)):
        raise UserError(f"{page}: write <!-- results: TABLE of NAME --> in a line, and {END} behind the table")

    def replacement(match: re.Match[str]) -> str:
        table, name = match[1], match[2]
        kept = read_kept(page.parent, name)
        tables = kept.figures.get("tables", {})
        if table not in tables:
            raise UserError(f"{page}: {name} has no table {table}; it has {', '.join(tables) or 'none'}")
        shown = markdown(table_of(tables[table]))
        return f"<!-- results: {table} of {name} -->\n{kept.origin()}\n\n{shown}{END}"

    return _BLOCK.sub(replacement, text)


def rendered_all(folder: Path) -> dict[Path, str]:
    """Return the text of each page of a folder that shows kept results, and of the summary.

    Raises:
        UserError: see `rendered` and `summary`.
    """
    pages = [page for page in sorted(folder.glob("*.md")) if _OPEN.search(page.read_text("utf-8"))]
    return {page: rendered(page) for page in pages} | {folder / PAGE: summary(folder)}


def main() -> None:
    """Keep the figures of a command, if one is named, and write pages' tables from those that are kept."""
    parser = argparse.ArgumentParser(prog="python -m treadle_lab.docs.pages", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="of the pages: docs/results")
    parser.add_argument("name", nargs="?", help="of the kept figures")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="of treadle, which yields them: lab reproduce ...")
    given = parser.parse_args()
    if given.name and not given.command:
        parser.error("write the command of treadle after NAME: lab reproduce ...")
    try:
        if given.name:
            run_and_keep(given.name, given.command, given.folder)
        for each, text in rendered_all(given.folder).items():
            each.write_text(text, "utf-8")
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

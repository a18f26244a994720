"""Puts tables of kept results into pages, between two marks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle_lab.docs.kept import read_kept
from treadle_lab.docs.summary import PAGE, summary
from treadle_lab.docs.tables import TABLES

END: Final = "<!-- to here -->"
_BLOCK: Final = re.compile(r"<!-- results: (\S+) of (\S+) -->\n.*?<!-- to here -->", re.DOTALL)
_OPEN: Final = re.compile(r"<!-- results:[^\n]*")


def rendered(page: Path) -> str:
    """Return a page with its tables as kept results have them, each below a line that says where it comes from.

    A table's place begins with ``<!-- results: TABLE of NAME -->`` and ends with ``<!-- to here -->``.

    Raises:
        UserError: a mark cannot be read, there is no such table, or no such result.
    """
    text = page.read_text("utf-8")
    if len(_OPEN.findall(text)) != len(_BLOCK.findall(text)):
        raise UserError(f"{page}: write <!-- results: TABLE of NAME --> in a line, and {END} behind the table")

    def instead(found: re.Match[str]) -> str:
        table, name = found[1], found[2]
        if table not in TABLES:
            raise UserError(f"{page}: there is no table {table}; there are {', '.join(TABLES)}")
        kept = read_kept(page.parent, name)
        try:
            shown = TABLES[table](kept.figures)
        except (KeyError, TypeError) as error:
            raise UserError(f"{page}: {name} has no figures for {table} ({error!r}); keep it anew") from None
        return f"<!-- results: {table} of {name} -->\n{kept.origin()}\n\n{shown}{END}"

    return _BLOCK.sub(instead, text)


def rendered_all(folder: Path) -> dict[Path, str]:
    """Return each page of a folder that shows kept results, as it should be, and the summary.

    Raises:
        UserError: as `rendered` and `summary`.
    """
    pages = [page for page in sorted(folder.glob("*.md")) if _OPEN.search(page.read_text("utf-8"))]
    return {page: rendered(page) for page in pages} | {folder / PAGE: summary(folder)}

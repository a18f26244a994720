"""The schema for other readers: the tables of docs/wire-format.md, and the JSON file from which Java reads it.

`python -m treadle_lab.docs.wire FILE` puts the tables into a page, or writes the file if its name ends with ``.json``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from treadle.events import WIRE_VERSION
from treadle.wire.frames import SECTIONS, SectionColumn, SectionSchema, document

BEGIN = "<!-- from here on printed by python -m treadle_lab.docs.wire -->"
END = "<!-- to here -->"


def section_table() -> str:
    """Return the version, and the table of sections, their columns and meanings, in Markdown."""
    rows = "".join(_row(section) for section in SECTIONS.values())
    head = f"This is version {WIRE_VERSION} of the wire.\n\n| kind | section | columns | meaning |\n"
    return f"{head}| --- | --- | --- | --- |\n{rows}"


def with_tables(page: str) -> str:
    """Return a page with its table as the schema has it now.

    Raises:
        ValueError: the page does not say where the table stands.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page must have the lines {BEGIN} and {END} once each")
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n\n{section_table()}\n{END}{rest.split(END)[1]}"


def document_text() -> str:
    """Return the schema's file: a section a line."""
    found = document()
    sections = ",\n".join(f"  {json.dumps(section)}" for section in found.pop("sections"))
    head = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
    return f'{{{head},\n"sections": [\n{sections}\n]}}\n'


def _row(section: SectionSchema) -> str:
    columns = ", ".join(map(_column, section.columns))
    meaning = re.sub(r"\s+", " ", (section.event.__doc__ or "").replace("``", "`")).strip()
    return f"| {section.kind} | `{section.name}` | {columns} | {meaning} |\n"


def _column(column: SectionColumn) -> str:
    remark = f" ({column.column.remark})" if column.column.remark else ""
    return f"`{column.name}` {column.type}{remark}".replace("*", r"\*")


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(document_text() if file.suffix == ".json" else with_tables(file.read_text("utf-8")), "utf-8")

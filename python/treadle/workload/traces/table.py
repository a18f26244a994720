"""Tables: lines of columns under a header that must be as written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from treadle.workload.traces.errors import wrong
from treadle.workload.traces.fields import Place
from treadle.workload.traces.source import Progress, read_lines


def read_table(path: Path, header: str, progress: Progress | None = None) -> Iterator[tuple[Place, list[str]]]:
    """Yield the rows of a comma-separated table, which has no quotes, each with its place.

    Raises:
        WorkloadError: the first line is not ``header``, or a row has more or fewer columns.
    """
    columns = header.count(",") + 1
    first = True
    for number, line in read_lines(path, progress):
        place = Place(path, number)
        if first:
            if line != header:
                raise place.wrong("", f"the header is {line[:80]!r}, not {header!r}")
            first = False
            continue
        fields = line.split(",")
        place.columns(fields, columns)
        yield place, fields
    if first:
        raise wrong(path, "", f"the table is empty; its first line should be {header!r}")

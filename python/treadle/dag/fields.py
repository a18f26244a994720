"""Checked access to the fields of a JSON object; every mistake names the file, the line, the field and the remedy."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from treadle.dag.dag import DagError
from treadle.words import nearest

LINE_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and where it stands."""

    where: str
    values: Mapping[str, Any]

    def fail(self, field: str, remedy: str) -> NoReturn:
        """Raise a DagError about a field."""
        raise DagError(f"{self.where}: {field}: {remedy}")

    def of(self, field: str, remedy: str) -> Any:
        """Return a field's value; it must be there."""
        if field not in self.values:
            self.fail(field, f"missing; {remedy}")
        return self.values[field]

    def integer(self, field: str, low: int = 0, high: int = 2**40) -> int:
        """Return a whole number from ``low`` to ``high``."""
        remedy = f"give a whole number from {low} to {high}"
        value = self.of(field, remedy)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.fail(field, f"is {json.dumps(value)}; {remedy}")
        if int(value) != value:
            self.fail(field, f"is {value}; {remedy}")
        return int(value)

    def text(self, field: str, remedy: str) -> str:
        """Return a text, or a whole number as one."""
        value = self.of(field, remedy)
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.fail(field, f"is {json.dumps(value)}; {remedy}")
        text = str(value)
        if any("\ud800" <= character <= "\udfff" for character in text):
            self.fail(field, f"is {json.dumps(value)}, of which a character is half; {remedy}")
        return text

    def integers(self, field: str, low: int = 0, high: int = 2**40) -> tuple[int, ...]:
        """Return a list of whole numbers from ``low`` to ``high``."""
        remedy = f"give a list of whole numbers from {low} to {high}"
        values = self.of(field, remedy)
        if not isinstance(values, list):
            self.fail(field, f"is {json.dumps(values)}; {remedy}")
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                self.fail(field, f"has {json.dumps(value)} in it; {remedy}")
        return tuple(values)

    def amounts(self, field: str) -> dict[str, float]:
        """Return amounts by resource: finite and not negative."""
        remedy = 'give amounts by resource, such as {"cpu": 1.0}'
        values = self.of(field, remedy)
        if not isinstance(values, dict):
            self.fail(field, f"is {json.dumps(values)}; {remedy}")
        for resource, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                self.fail(f"{field}.{resource}", f"is {json.dumps(value)}; give a number of 0 or more")
        return {str(resource): float(value) for resource, value in values.items()}

    def objects(self, field: str) -> Iterator[Fields]:
        """Yield the objects of a list."""
        remedy = "give a list of objects"
        values = self.of(field, remedy)
        if not isinstance(values, list):
            self.fail(field, f"is {json.dumps(values)}; {remedy}")
        for index, value in enumerate(values):
            if not isinstance(value, dict):
                self.fail(f"{field}[{index}]", f"is {json.dumps(value)}; {remedy}")
            yield Fields(f"{self.where}: {field}[{index}]", value)

    def known(self, *names: str) -> None:
        """Refuse fields that the format does not have: they would be passed over in silence."""
        for name in self.values:
            if name not in names:
                self.fail(name, f"unknown; the fields are {', '.join(names)}{nearest(name, names)}")


def json_lines(path: Path) -> Iterator[Fields]:
    """Yield one object a line of a file, packed with xz if its name ends so; empty lines do not count.

    Raises:
        DagError: the file cannot be read, or a line is not a JSON object.
    """
    number = 0
    try:
        with lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb") as stream:
            while line := stream.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX:
                    raise DagError(f"{path}:{number}: longer than {LINE_BYTES_MAX} bytes; write one DAG a line")
                if line.strip():
                    yield Fields(f"{path}:{number}", _object(path, number, line))
    except OSError as error:
        raise DagError(f"{path}: {error.strerror or error}; give the path of a readable file") from None
    except (lzma.LZMAError, EOFError) as error:
        raise DagError(f"{path}: not packed with xz ({error}); unpack it, or pack it anew") from None


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DagError(f"{path}:{number}: not JSON ({error}); write one JSON object a line") from None
    if not isinstance(value, dict):
        raise DagError(f"{path}:{number}: not a JSON object; write one JSON object a line")
    return value

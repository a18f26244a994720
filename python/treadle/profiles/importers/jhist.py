"""MapReduce's ``.jhist`` files, in either form of Hadoop's: ``Avro-Binary`` (the default since 3.0) and ``Avro-Json``.

Both begin with a line that names the form and a line with the Avro schema. In the binary form the events follow one
after another with nothing between, in the other each is a line of JSON in which Avro names the members of unions.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from treadle.errors import UserError
from treadle.profiles.importers.history import BrokenHistoryError, items, lines, mapping, text
from treadle.profiles.importers.mapreduce import JobHistory
from treadle.profiles.run import JobRun

FILE_BYTES_MAX: Final = 4 << 30
CONFIGURATION_BYTES_MAX: Final = 32 << 20

_PRIMITIVES = {"string", "int", "long", "boolean", "float", "double", "bytes", "array", "map"}


def read_jhist(path: Path) -> JobRun:
    """Read a ``.jhist`` file, and the ``_conf.xml`` of its job if that is beside it.

    Raises:
        BrokenHistoryError: the file is none, or cut off.
        UnfinishedError: the job has not ended well.
        OSError: the file cannot be read.
    """
    history = JobHistory()
    for kind, event in _events(path):
        history.take(kind, event)
    if not history.id:
        raise BrokenHistoryError("no event says which job it is of (JOB_SUBMITTED)")
    beside = path.with_name(f"{history.id}_conf.xml")
    return history.run(read_configuration(beside) if beside.is_file() else {})


def read_configuration(path: Path) -> dict[str, str]:
    """Return the entries of a Hadoop configuration file.

    Raises:
        BrokenHistoryError: it is none.
    """
    if path.stat().st_size > CONFIGURATION_BYTES_MAX:
        raise BrokenHistoryError(f"{path.name} is larger than {CONFIGURATION_BYTES_MAX} bytes")
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314 (expat bounds what entities may grow to)
    except ElementTree.ParseError as error:
        raise BrokenHistoryError(f"{path.name} is no configuration: {error}") from error
    return {entry.findtext("name") or "": entry.findtext("value") or "" for entry in root.iter("property")}


def _events(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise BrokenHistoryError(f"larger than {FILE_BYTES_MAX} bytes")
    with path.open("rb") as stream:
        form = stream.readline(64).strip()
        schema = stream.readline(1 << 20)
        if form == b"Avro-Binary":
            yield from _binary(schema, stream.read())
        elif form == b"Avro-Json":
            yield from _json(stream)
        else:
            raise BrokenHistoryError(f"begins with {form[:20]!r}, not with Avro-Binary or Avro-Json")


def _check_schema(schema: object) -> None:
    """See that each value takes a byte at least, so that a short file cannot describe values without end.

    Raises:
        BrokenHistoryError: one does not.
    """
    if isinstance(schema, list):  # a union takes a byte to say which of its members it is
        for member in schema:
            if member != "null":
                _check_schema(member)
        return
    if schema == "null":
        raise BrokenHistoryError("its schema is not that of events: it has values that take no space")
    fields = mapping(schema)
    kind = fields.get("type")
    if kind == "record":
        if not items(fields.get("fields")):
            _check_schema("null")
        for field in items(fields.get("fields")):
            _check_schema(mapping(field).get("type"))
    elif kind in {"array", "map"}:
        _check_schema(fields.get("items", fields.get("values")))
    elif kind == "fixed" and not fields.get("size"):
        _check_schema("null")
    elif fields:
        _check_schema(kind)


def _binary(schema: bytes, content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        import fastavro  # only here: an extra
    except ImportError:
        raise UserError(
            "binary .jhist files need fastavro; pip install 'treadle[history]', or have jobs write "
            "mapreduce.jobhistory.jhist.format=json"
        ) from None
    events = io.BytesIO(content)
    try:
        plain = json.loads(schema)
        _check_schema(plain)
        parsed = fastavro.parse_schema(plain)
        while events.tell() < len(content):
            event = mapping(fastavro.schemaless_reader(events, parsed, None))
            yield text(event.get("type")), mapping(event.get("event"))
    except BrokenHistoryError:
        raise
    except Exception as error:  # fastavro raises whatever a wrong schema or wrong data lead it to
        raise BrokenHistoryError(f"no event at byte {events.tell()} of the events: {error or 'cut off'}") from error


def _json(stream: io.BufferedReader) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for at, line in lines(stream):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"line {at + 2}: no event: {error}") from error
        yield text(mapping(event).get("type")), mapping(_without_unions(mapping(event).get("event")))


def _without_unions(value: object) -> object:
    """Return a value without the names by which Avro's JSON tells the members of unions apart."""
    if isinstance(value, list):
        return [_without_unions(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name in _PRIMITIVES or name.startswith("org.apache.hadoop."):
            return _without_unions(inner)
    return {name: _without_unions(inner) for name, inner in value.items()}

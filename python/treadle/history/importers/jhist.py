"""MapReduce's ``.jhist`` files, in either form of Hadoop's: ``Avro-Binary`` (the default since 3.0) and ``Avro-Json``.

Both begin with a line that names the form and a line with the Avro schema. In the binary form the events follow one
after another with nothing between, in the other each is a line of JSON in which Avro names the members of unions.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from xml.etree import ElementTree

from treadle.errors import UserError
from treadle.history.importers.avro_schema import read_schema
from treadle.history.importers.files import Files
from treadle.history.importers.mapreduce import JobHistory
from treadle.history.importers.outcome import BrokenHistoryError, lines, mapping, text
from treadle.history.run import JobRun

SCHEMA_BYTES_MAX: Final = 1 << 20
CONFIGURATION_BYTES_MAX: Final = 32 << 20

JOB: Final = re.compile(r"job_\d{1,19}_\d{1,10}", re.ASCII)

_PRIMITIVES = {"string", "int", "long", "boolean", "float", "double", "bytes", "array", "map"}


def read_jhist(path: Path, files: Files | None = None) -> JobRun:
    """Read a ``.jhist`` file, and the ``_conf.xml`` of its job if that is beside it.

    Args:
        path: of the file
        files: opens it and what is beside it

    Raises:
        BrokenHistoryError: the file is none, or cut off.
        UnfinishedError: the job has not ended well.
        OSError: the file cannot be read.
    """
    files = files or Files()
    history = JobHistory()
    with files.open(path) as stream:
        for kind, event in _events(stream):
            history.take(kind, event)
    if not history.id:
        raise BrokenHistoryError("no event says which job it is of (JOB_SUBMITTED)")
    if not JOB.fullmatch(history.id):
        raise BrokenHistoryError(f"{history.id[:60]!r} is no id of a job")
    try:
        with files.open(path.with_name(f"{history.id}_conf.xml")) as stream:
            configuration = read_configuration(stream)
    except FileNotFoundError:
        configuration = {}
    return history.run(configuration)


def read_configuration(stream: BinaryIO) -> dict[str, str]:
    """Return the entries of a Hadoop configuration file.

    Raises:
        BrokenHistoryError: it is none.
    """
    content = stream.read(CONFIGURATION_BYTES_MAX + 1)
    if len(content) > CONFIGURATION_BYTES_MAX:
        raise BrokenHistoryError(f"its configuration is larger than {CONFIGURATION_BYTES_MAX} bytes")
    try:
        root = ElementTree.fromstring(content)  # noqa: S314 (expat bounds what entities may grow to)
    except ElementTree.ParseError as error:
        raise BrokenHistoryError(f"what should be its configuration is none: {error}") from error
    return {entry.findtext("name") or "": entry.findtext("value") or "" for entry in root.iter("property")}


def _events(stream: BinaryIO) -> Iterator[tuple[str, Mapping[str, Any]]]:
    form = stream.readline(64).strip()
    schema = stream.readline(SCHEMA_BYTES_MAX)
    if form == b"Avro-Binary":
        yield from _binary(schema, cast("io.BufferedReader", stream))
    elif form == b"Avro-Json":
        yield from _json(stream)
    else:
        raise BrokenHistoryError(f"begins with {form[:20]!r}, not with Avro-Binary or Avro-Json")


def _binary(schema: bytes, stream: io.BufferedReader) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        import fastavro  # only here: an extra
    except ImportError:
        raise UserError(
            "binary .jhist files need fastavro; pip install 'treadle[history]', or have jobs write "
            "mapreduce.jobhistory.jhist.format=json"
        ) from None
    start = at = stream.tell()
    try:
        parsed = fastavro.parse_schema(read_schema(json.loads(schema)))
        while stream.peek(1):
            at = stream.tell()
            event = mapping(fastavro.schemaless_reader(stream, parsed, None))
            yield text(event.get("type")), mapping(event.get("event"))
    except BrokenHistoryError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # fastavro raises whatever wrong data lead it to
        raise BrokenHistoryError(f"no event at byte {at - start} of the events: {error or 'cut off'}") from error


def _json(stream: BinaryIO) -> Iterator[tuple[str, Mapping[str, Any]]]:
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

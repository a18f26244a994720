"""Frames of a release whose wire has another schema, made into frames of this one.

A recording brings the schema that its frames have. Sections and columns are found by their names: what this release
does not know is left out, what the other did not have is 0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from treadle.record.files import RecordingError
from treadle.wire.answer import PROPOSAL_HEADER
from treadle.wire.frames import FRAME_HEADER, RESOURCES_MAX, SECTION_HEADER
from treadle.wire.schema import FRAME_MAGIC, PROPOSAL_MAGIC, SECTIONS, VERSION, FrameFlag, plans

_BYTES: Final = {"u8": 1, "i32": 4, "name": 4, "i64": 8}
_STRINGS: Final = "STRINGS"
_OF_OTHER_SECTIONS: Final = {"CONTAINERS.slot"}
"""Columns by which other sections named rows: nothing is lost with them."""
_VERSION: Final = VERSION.to_bytes(2, "little")
_HEADER_OF_2: Final = struct.Struct("<4sHHqqqqii")


class Translator:
    """Makes frames of one schema into frames of this release's."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Read a schema (`treadle.wire.page.document`).

        Raises:
            RecordingError: it is none.
        """
        try:
            self._wire = int(schema["wire"])
            self._sections: dict[int, tuple[str, list[tuple[str, str]]]] = {
                int(each["kind"]): (each["name"], [(name, type_) for name, type_ in each["columns"]])
                for each in schema["sections"]
            }
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(f"a schema that cannot be read: {error}") from error
        self._texts = 0
        """How many there were since the last snapshot."""
        self._unknown: dict[str, None] = {}
        self._added: dict[str, None] = {}

    def notes(self) -> list[str]:
        """Return what was left out and what was filled up, of all frames."""
        found = []
        if self._unknown:
            found.append(f"its frames have what this release does not know: {', '.join(self._unknown)}")
        if self._added:
            found.append(f"its frames lack what this release has, which is taken for 0: {', '.join(self._added)}")
        return found

    def frame(self, frame: bytes, room: int) -> bytes:
        """Return a frame of this release.

        Args:
            frame: the other release's
            room: the most bytes that the sections of this release's may have

        Raises:
            RecordingError: it is none of that schema, or would be larger.
        """
        try:
            header = list(FRAME_HEADER.unpack_from(frame))
            resources, count = header[8], header[9]
            if header[2] & FrameFlag.SNAPSHOT:
                self._texts = 0
            if not 1 <= resources <= RESOURCES_MAX:
                raise ValueError(f"{resources} resource types are not in 1 to {RESOURCES_MAX}")
            found: dict[int, bytes] = {}
            offset = FRAME_HEADER.size
            for _ in range(count):
                kind, _, rows, length = SECTION_HEADER.unpack_from(frame, offset)
                offset += SECTION_HEADER.size
                name, columns = self._sections[kind]
                content = frame[offset : offset + length]
                offset += length
                if name not in SECTIONS:
                    self._unknown[name] = None
                    continue
                section = SECTIONS[name]
                if name != _STRINGS and rows and not columns:
                    raise ValueError(f"{name} has {rows} rows and no columns")
                room -= length if name == _STRINGS else rows * plans(resources)[section.kind].row_bytes
                if room < 0:
                    raise ValueError(f"{name} has {rows} rows, too many for a file of its size")
                said = (
                    self._strings(columns, content, rows)
                    if name == _STRINGS
                    else self._columns(name, columns, content, rows, resources)
                )
                found[section.kind] = SECTION_HEADER.pack(section.kind, 0, rows, len(said)) + said
        except (KeyError, IndexError, ValueError, TypeError, struct.error) as error:
            raise RecordingError(f"a frame that its schema does not describe: {error}") from error
        body = b"".join(found[kind] for kind in sorted(found))
        header[0], header[1] = FRAME_MAGIC, VERSION
        header[9], header[10] = len(found), FRAME_HEADER.size + len(body)
        return FRAME_HEADER.pack(*header) + body

    def answer(self, answer: bytes) -> bytes:
        """Return the answer to a frame as this release writes it: that of wire 2 also named the frame decided on."""
        if self._wire != 2:
            return (
                answer[:4] + _VERSION + answer[6:] if answer.startswith(PROPOSAL_MAGIC) and len(answer) > 6 else answer
            )
        if len(answer) < _HEADER_OF_2.size:
            return answer
        magic, _, flags, epoch, sequence, _, *rest = _HEADER_OF_2.unpack_from(answer)
        return PROPOSAL_HEADER.pack(magic, VERSION, flags, epoch, sequence, *rest) + answer[_HEADER_OF_2.size :]

    def _strings(self, columns: list[tuple[str, str]], content: bytes, rows: int) -> bytes:
        """Return texts with their indices, which wire 5 gave in order."""
        if len(columns) > 1:
            return content
        if 4 * rows > len(content):
            raise ValueError(f"{len(content)} bytes are too few for {rows} texts")
        index = np.arange(self._texts, self._texts + rows, dtype="<i4").tobytes()
        self._texts += rows
        return content[: 4 * rows] + index + content[4 * rows :]

    def _columns(self, name: str, columns: list[tuple[str, str]], content: bytes, rows: int, resources: int) -> bytes:
        """Return the columns of a section in this release's order and types."""
        there: dict[str, tuple[str, bytes]] = {}
        at = 0
        for column, type_ in columns:
            length = rows * (8 * resources if type_ == "R*i64" else _BYTES[type_])
            there[column] = type_, content[at : at + length]
            at += length
        if at != len(content):
            raise ValueError(f"{name} has {len(content)} bytes instead of {at}")
        said = []
        for each in SECTIONS[name].columns:
            type_, given = there.pop(each.name, ("", b""))
            if not type_:
                self._added[f"{name}.{each.name}"] = None
            said.append(_as_type(given, type_, each.type, rows, resources))
        left = [f"{name}.{column}" for column in there]
        self._unknown |= {column: None for column in left if column not in _OF_OTHER_SECTIONS}
        return b"".join(said)


def _as_type(given: bytes, type_: str, wanted: str, rows: int, resources: int) -> bytes:
    """Return a column in another type; zeros if none was given."""
    if type_ == wanted:
        return given
    if "R*i64" in {type_, wanted} and type_:
        raise ValueError(f"{type_} cannot become {wanted}")
    if not type_:
        return bytes(rows * (8 * resources if wanted == "R*i64" else _BYTES[wanted]))
    kinds = {"u8": "u1", "i32": "<i4", "name": "<i4", "i64": "<i8"}
    return np.frombuffer(given, kinds[type_], rows).astype(kinds[wanted]).tobytes()

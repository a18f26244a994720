"""Frames of a release with another schema are read by the schema that the recording brings."""

from __future__ import annotations

import copy
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treadle.events import Names, Nodes, Queues
from treadle.files import bound
from treadle.proposals import Proposals
from treadle.record.files import RecordingError
from treadle.record.frames_of_others import Translator
from treadle.record.reader import schema_hash
from treadle.wire.answer import Answer, encode_answer
from treadle.wire.frames import FRAME_HEADER, SECTION_HEADER, FrameDecoder
from treadle.wire.page import document
from treadle.wire.schema import SECTIONS

GOLDEN = (Path(__file__).parents[2] / "golden" / "frame-snapshot.bin").read_bytes()
R = FRAME_HEADER.unpack_from(GOLDEN)[8]
ROOM = bound(0)


def columns_of(other: dict[str, Any], name: str) -> list[list[str]]:
    found: list[list[str]] = next(each["columns"] for each in other["sections"] if each["name"] == name)
    return found


def changed(name: str, change: Any) -> bytes:
    """Return the golden frame with another content of a section: ``change`` is given rows and columns by name."""
    header = list(FRAME_HEADER.unpack_from(GOLDEN))
    offset, parts = FRAME_HEADER.size, []
    for _ in range(header[9]):
        kind, _, rows, length = SECTION_HEADER.unpack_from(GOLDEN, offset)
        content = GOLDEN[offset + SECTION_HEADER.size : offset + SECTION_HEADER.size + length]
        offset += SECTION_HEADER.size + length
        if kind == SECTIONS[name].kind:
            at, columns = 0, {}
            for column in SECTIONS[name].columns:
                size = rows * {"u8": 1, "i32": 4, "name": 4, "i64": 8, "R*i64": 8 * R}[column.type]
                columns[column.name] = content[at : at + size]
                at += size
            content = b"".join(change(rows, columns))
        parts.append(SECTION_HEADER.pack(kind, 0, rows, len(content)) + content)
    body = b"".join(parts)
    header[10] = FRAME_HEADER.size + len(body)
    return FRAME_HEADER.pack(*header) + body


def test_a_frame_of_this_schema_stays_as_it_is() -> None:
    translator = Translator(document())
    assert translator.frame(GOLDEN, ROOM) == GOLDEN
    assert translator.notes() == []


def test_an_answer_of_wire_2_loses_the_frame_that_it_was_decided_on() -> None:
    now = encode_answer(Answer(1, 5, 7, True, Proposals.none(), "{}"))
    header = struct.Struct("<4sHHqqqqii")
    before = header.pack(b"TRDP", 2, 1, 1, 5, 4, 7, 0, 2) + b"{}"
    assert Translator({**document(), "wire": 2}).answer(before) == now
    assert Translator(document()).answer(now) == now
    assert Translator({**document(), "wire": 2}).answer(b"TRDP") == b"TRDP"


def test_an_answer_of_wire_4_is_read_as_one_of_this_release() -> None:
    now = encode_answer(Answer(1, 5, 7, True, Proposals.none(), "{}"))
    assert Translator({**document(), "wire": 4}).answer(now[:4] + b"\x04\x00" + now[6:]) == now
    assert Translator({**document(), "wire": 4}).answer(b"TRDP") == b"TRDP"


def test_texts_of_wire_5_have_the_next_indices() -> None:
    other = copy.deepcopy(document())
    columns_of(other, "STRINGS")[:] = [["bytes", "i32"]]
    kind, _, rows, length = SECTION_HEADER.unpack_from(GOLDEN, FRAME_HEADER.size)
    start = FRAME_HEADER.size + SECTION_HEADER.size
    content = GOLDEN[start : start + 4 * rows] + GOLDEN[start + 8 * rows : start + length]

    def of_wire_5(strings: bytes, rows: int, flags: int) -> bytes:
        header = list(FRAME_HEADER.unpack_from(GOLDEN))
        body = SECTION_HEADER.pack(kind, 0, rows, len(strings)) + strings
        body += GOLDEN[start + length :] if flags else b""
        header[2], header[9], header[10] = flags, header[9] if flags else 1, FRAME_HEADER.size + len(body)
        return FRAME_HEADER.pack(*header) + body

    translator = Translator(other)
    flags = FRAME_HEADER.unpack_from(GOLDEN)[2]
    assert translator.frame(of_wire_5(content, rows, flags), ROOM) == GOLDEN
    decoder = FrameDecoder()
    decoder.decode(GOLDEN)
    more = translator.frame(of_wire_5(struct.pack("<ii", 1, 2) + b"abb", 2, 0), ROOM)
    assert decoder.decode(more).events == [Names(("a", "bb"))]
    assert translator.frame(of_wire_5(content, rows, flags), ROOM) == GOLDEN
    with pytest.raises(RecordingError, match="too few for 3 texts"):
        translator.frame(of_wire_5(b"", 3, 0), ROOM)


def test_a_column_that_the_other_did_not_have_is_0_and_one_that_is_unknown_is_left_out() -> None:
    other = copy.deepcopy(document())
    mine = columns_of(other, "NODES")
    mine[:] = [["height", "i64"], *(each for each in mine if each[0] != "rack")]
    frame = changed(
        "NODES", lambda rows, columns: [bytes(8 * rows), *(columns[name] for name in columns if name != "rack")]
    )
    translator = Translator(other)
    found = FrameDecoder().decode(translator.frame(frame, ROOM))
    expected = FrameDecoder().decode(GOLDEN)
    nodes = next(each for each in found.events if isinstance(each, Nodes))
    was = next(each for each in expected.events if isinstance(each, Nodes))
    assert (nodes.rack_name == 0).all()
    assert np.array_equal(nodes.total, was.total)
    assert np.array_equal(nodes.name_name, was.name_name)
    assert translator.notes() == [
        "its frames have what this release does not know: NODES.height",
        "its frames lack what this release has, which is taken for 0: NODES.rack",
    ]


def test_columns_in_another_order_and_of_another_width_are_found_by_name() -> None:
    other = copy.deepcopy(document())
    mine = columns_of(other, "QUEUES")
    mine.reverse()
    next(each for each in mine if each[0] == "priority")[1] = "i64"

    def change(rows: int, columns: dict[str, bytes]) -> list[bytes]:
        columns["priority"] = np.frombuffer(columns["priority"], "<i4").astype("<i8").tobytes()
        return [columns[name] for name in reversed(columns)]

    found = FrameDecoder().decode(Translator(other).frame(changed("QUEUES", change), ROOM))
    queues, was = (
        next(each for each in frame.events if isinstance(each, Queues))
        for frame in (found, FrameDecoder().decode(GOLDEN))
    )
    assert np.array_equal(queues.priority, was.priority)
    assert np.array_equal(queues.path_name, was.path_name)


def test_a_section_under_another_number_is_found_by_name_and_an_unknown_one_is_left_out() -> None:
    other = copy.deepcopy(document())
    other["wire"] = 1
    for each in other["sections"]:
        each["kind"] += 50
    parts = bytearray(GOLDEN)
    offset = FRAME_HEADER.size
    for _ in range(FRAME_HEADER.unpack_from(GOLDEN)[9]):
        kind, reserved, rows, length = SECTION_HEADER.unpack_from(GOLDEN, offset)
        SECTION_HEADER.pack_into(parts, offset, kind + 50, reserved, rows, length)
        offset += SECTION_HEADER.size + length
    translator = Translator(other)
    assert translator.frame(bytes(parts), ROOM) == GOLDEN
    next(each for each in other["sections"] if each["name"] == "TAGS")["name"] = "STICKERS"
    translator = Translator(other)
    FrameDecoder().decode(translator.frame(bytes(parts), ROOM))
    assert "STICKERS" in translator.notes()[0]


@pytest.mark.parametrize("schema_", [{}, {"wire": 2}, {"wire": 2, "sections": [{"name": "NODES"}]}])
def test_what_is_no_schema_is_refused(schema_: dict[str, Any]) -> None:
    with pytest.raises(RecordingError, match="a schema that cannot be read"):
        Translator(schema_)


def test_a_frame_that_its_schema_does_not_describe_is_refused() -> None:
    other = copy.deepcopy(document())
    columns_of(other, "NODES").pop()
    with pytest.raises(RecordingError, match="a frame that its schema does not describe"):
        Translator(other).frame(GOLDEN, ROOM)


def of_rows(rows: int, content: bytes = b"", resources: int = R) -> bytes:
    """Return a frame of one section, NODES, that states a number of rows."""
    header = list(FRAME_HEADER.unpack_from(GOLDEN))
    body = SECTION_HEADER.pack(SECTIONS["NODES"].kind, 0, rows, len(content)) + content
    header[8:] = resources, 1, FRAME_HEADER.size + len(body)
    return FRAME_HEADER.pack(*header) + body


@pytest.mark.parametrize(
    ("columns", "frame", "said"),
    [
        ([], of_rows(1_000_000), "NODES has 1000000 rows and no columns"),
        ([["x", "u8"]], of_rows(1_000_000, bytes(1_000_000)), "too many for a file of its size"),
        ([["x", "R*i64"]], of_rows(1_000_000, resources=0), "0 resource types"),
    ],
)
def test_rows_that_the_file_has_no_bytes_for_are_refused_and_cost_no_memory(
    columns: list[list[str]], frame: bytes, said: str
) -> None:
    other = copy.deepcopy(document())
    columns_of(other, "NODES")[:] = columns
    translator = Translator(other)
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match=said):
            translator.frame(frame, ROOM)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_frame_that_ends_early_is_refused() -> None:
    with pytest.raises(RecordingError, match="a frame that its schema does not describe"):
        Translator(document()).frame(GOLDEN[: FRAME_HEADER.size + 3], ROOM)


def test_the_hash_is_of_the_document() -> None:
    assert len(schema_hash()) == 16
    assert schema_hash() == schema_hash()

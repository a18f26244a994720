"""The decoder's bounds, one example each, and what it keeps between frames."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack, pack_into
from typing import Annotated, get_args

import numpy as np
import pytest

from treadle import events
from treadle.engine.testing import StringTable, request, rows
from treadle.events import U8, Held, Proposals, Section, code, filled
from treadle.model.tables import ModelError, largest
from treadle.wire.answer import Answer, decode_answer, encode_answer
from treadle.wire.frames import (
    SECTIONS,
    FrameDecoder,
    FrameEncoder,
    FrameFlag,
    FrameHeader,
    TooManyError,
    VersionError,
    WireError,
    document,
    plans,
)

SNAPSHOT = FrameHeader(int(FrameFlag.SNAPSHOT), 7, 1, 1000, 0, 10, 2)
DELTA = SNAPSHOT._replace(flags=0, sequence=2)
HEADER = 48


def snapshot(*texts: str) -> bytes:
    return FrameEncoder().encode(SNAPSHOT, [events.Names(("", *texts))])


def tags(application: int, tag: int) -> events.Tags:
    return events.Tags(np.array([application], np.int32), np.array([tag], np.int32))


def field_of(frame: bytes, decoder: FrameDecoder | None = None) -> str:
    with pytest.raises(WireError) as caught:
        (decoder or FrameDecoder()).decode(frame)
    return caught.value.field


@pytest.mark.parametrize(
    ("at", "format_", "value", "field"),
    [
        (0, "<4s", b"TRDP", "magic"),
        (4, "<H", 1, "version"),
        (6, "<H", 9, "flags"),
        (16, "<q", 0, "sequence"),
        (36, "<i", -1, "limit"),
        (40, "<H", 0, "resources"),
        (40, "<H", 65, "resources"),
        (42, "<H", 2, "section 1"),
        (42, "<H", 0, "length"),
        (44, "<I", 47, "length"),
        (HEADER, "<H", 0, "section 0.kind"),
        (HEADER, "<H", 23, "section 0.kind"),
        (HEADER + 2, "<H", 1, "section 0.reserved"),
        (HEADER + 4, "<I", 0xFFFFFFFF, "STRINGS.length"),
        (HEADER + 8, "<I", 18, "section 0.length"),
        (HEADER + 8, "<I", 16, "STRINGS.bytes"),
        (HEADER + 12, "<i", 1, "STRINGS.bytes"),
        (HEADER + 16, "<i", -1, "STRINGS.bytes"),
        (HEADER + 20, "<i", 1, "STRINGS.text"),
        (HEADER + 24, "<i", 2, "STRINGS.text"),
        (HEADER + 28, "<B", 0xFF, "STRINGS"),
    ],
)
def test_an_error_names_the_field(at: int, format_: str, value: int | bytes, field: str) -> None:
    frame = bytearray(snapshot("x"))
    pack_into(format_, frame, at, value)
    assert field_of(bytes(frame)) == field


def test_the_first_text_of_a_snapshot_is_empty() -> None:
    assert field_of(FrameEncoder().encode(SNAPSHOT, [events.Names(("x",))])) == "STRINGS"
    assert field_of(FrameEncoder().encode(SNAPSHOT, [])) == "STRINGS"


def test_a_delta_needs_a_snapshot_before_it() -> None:
    assert field_of(FrameEncoder().encode(DELTA, [])) == "flags"


def test_a_delta_keeps_the_number_of_resource_types() -> None:
    decoder = FrameDecoder()
    decoder.decode(snapshot())
    assert field_of(FrameEncoder().encode(DELTA._replace(resources=3), []), decoder) == "resources"


def test_names_of_earlier_frames_count_until_the_next_snapshot() -> None:
    decoder, encoder = FrameDecoder(), FrameEncoder()
    decoder.decode(encoder.encode(SNAPSHOT, [events.Names(("", "a"))]))
    decoded = decoder.decode(encoder.encode(DELTA, [events.Names(("b",)), tags(3, 2)]))
    assert decoded.events[0] == events.Names(("b",))
    decoder.decode(encoder.encode(SNAPSHOT, [events.Names(("",))]))
    assert field_of(encoder.encode(DELTA, [tags(3, 1)]), decoder) == "TAGS.tag"


def test_an_index_of_a_text_may_be_used_again() -> None:
    decoder, encoder = FrameDecoder(), FrameEncoder()
    decoder.decode(encoder.encode(SNAPSHOT, [events.Names(("", "a", "b"))]))
    again = events.Names(("c", "a", "d"), (1, 3, 2))
    assert decoder.decode(encoder.encode(DELTA, [again, tags(3, 3)])).events[0] == again
    assert decoder.texts == ["", "c", "d", "a"]
    settings = events.Settings({"a": "c"})
    assert decoder.decode(encoder.encode(DELTA._replace(sequence=3), [settings])).events == [settings]
    with pytest.raises(ValueError, match="'b'"):
        encoder.encode(DELTA._replace(sequence=4), [events.Settings({"b": "c"})])
    for index in (0, 5):
        texts = FrameDecoder()
        texts.decode(snapshot("a"))
        frame = FrameEncoder().encode(DELTA, [events.Names(("", "x", "y", "z", "e", "f"))])
        wrong = bytearray(frame)
        pack_into("<i", wrong, HEADER + 12 + 6 * 4 + 4, index)
        assert field_of(bytes(wrong), texts) == "STRINGS.text"


@pytest.mark.parametrize(
    ("application", "tag", "field"), [(-1, 0, "application"), (1 << 22, 0, "application"), (0, -1, "tag")]
)
def test_an_index_out_of_range_is_named(application: int, tag: int, field: str) -> None:
    frame = FrameEncoder().encode(SNAPSHOT, [events.Names(("",)), tags(application, tag)])
    assert field_of(frame) == f"TAGS.{field}"


def asked(application: int, key: int) -> bytes:
    texts = StringTable()
    asks = rows(events.Requests, texts, [request(application, key, 1, (1, 1))])
    return FrameEncoder().encode(SNAPSHOT, [texts.drain(), asks])


@pytest.mark.parametrize(
    ("application", "key", "field", "last"),
    [
        (events.INDEX_MAX, 0, "application", 4_194_303),
        (0, events.INDEX_MAX - events.KEYS_RESERVED, "key", 4_193_279),
    ],
)
def test_the_wire_refuses_what_the_model_has_no_room_for(application: int, key: int, field: str, last: int) -> None:
    """What the wire takes the model takes; the first index beyond never reaches it, and the error has the bound."""
    highest = FrameDecoder().decode(asked(application - bool(application), key - bool(key))).events[-1]
    assert isinstance(highest, events.Requests)
    assert largest(getattr(highest, field), field) == last
    with pytest.raises(TooManyError, match=rf"REQUESTS.{field}: \d+ is not in 0 to {last}, the indices that there are"):
        FrameDecoder().decode(asked(application, key))
    with pytest.raises(ModelError, match=f"{field} index 4194304 is not in 0 to 4194303"):
        largest(np.full(1, events.INDEX_MAX, np.int32), field)


def test_the_culprit_among_columns_checked_together_is_named() -> None:
    nodes = events.filled(events.Nodes, 2, resources=2, node=np.arange(2), rack_name=np.array([0, 5]), state=1)
    assert field_of(FrameEncoder().encode(SNAPSHOT, [events.Names(("",)), nodes])) == "NODES.rack"


def test_sections_come_once_and_in_order() -> None:
    frame = snapshot()
    twice = bytearray(frame + frame[HEADER:])
    pack_into("<H", twice, 42, 2)
    pack_into("<I", twice, 44, len(twice))
    assert field_of(bytes(twice)) == "section 1.kind"


def test_rows_and_length_agree() -> None:
    section = pack("<HHII", SECTIONS["TAGS"].kind, 0, 1, 7) + bytes(7)
    frame = bytearray(snapshot() + section)
    pack_into("<H", frame, 42, 2)
    pack_into("<I", frame, 44, len(frame))
    assert field_of(bytes(frame)) == "TAGS.length"


def test_resource_types_are_as_many_as_the_header_says() -> None:
    types = events.ResourceTypes(("a",), ("",), np.ones(1, np.uint8), np.ones(1, np.int64), np.ones(1, np.int64))
    encoder = FrameEncoder()
    frame = bytearray(encoder.encode(SNAPSHOT._replace(resources=1), [events.Names(("", "a")), types]))
    pack_into("<H", frame, 40, 2)
    assert field_of(bytes(frame)) == "RESOURCE_TYPES.rows"


def test_a_setting_is_there_once() -> None:
    encoder = FrameEncoder()
    names = events.Names(("", "a", "b"))
    frame = bytearray(encoder.encode(SNAPSHOT, [names, events.Settings({"a": "", "b": ""})]))
    pack_into("<i", frame, len(frame) - 12, 1)
    assert field_of(bytes(frame)) == "SETTINGS.key"


def test_columns_are_views_of_the_frame() -> None:
    decoded = FrameDecoder().decode(FrameEncoder().encode(SNAPSHOT, [events.Names(("",)), tags(3, 0)]))
    (found,) = [event for event in decoded.events if isinstance(event, events.Tags)]
    assert not found.application.flags.owndata
    assert not found.application.flags.writeable


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([tags(1, 0), tags(2, 0)], "two events"),
        ([events.Settings({"absent": ""})], "no Names gave"),
        ([events.Snapshot(8)], "Snapshot"),
        ([events.Tags(np.zeros(2, np.int32), np.zeros(1, np.int32))], "shape"),
    ],
)
def test_what_cannot_be_encoded_is_said(found: list[events.Event], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        FrameEncoder().encode(SNAPSHOT, [events.Names(("",)), *found])


@pytest.mark.parametrize(
    ("position", "count", "field"),
    [(0, 1 << 23, "FATES.count"), ((1 << 31) - 2, 2, "FATES.position"), (-1, 1, "FATES.position")],
)
def test_a_run_of_fates_is_bounded(position: int, count: int, field: str) -> None:
    runs = events.filled(events.FateRuns, 1, sequence=1, position=position, count=count)
    assert field_of(FrameEncoder().encode(SNAPSHOT, [events.Names(("",)), runs])) == field


def test_adjacent_fates_are_one_row() -> None:
    fates = events.filled(events.Fates, 5, sequence=[1, 1, 1, 1, 2], position=[0, 1, 2, 4, 5], fate=[0, 0, 16, 16, 16])
    frame = FrameEncoder().encode(SNAPSHOT, [events.Names(("",)), fates])
    assert len(frame) == len(snapshot()) + 12 + 4 * 17
    decoded = FrameDecoder().decode(frame).events[-1]
    assert isinstance(decoded, events.Fates)
    assert decoded.position.tolist() == fates.position.tolist()
    assert decoded.sequence.tolist() == fates.sequence.tolist()
    assert decoded.fate.tolist() == fates.fate.tolist()


def test_another_version_is_named_with_ours() -> None:
    frame = bytearray(snapshot())
    pack_into("<H", frame, 4, 1)
    with pytest.raises(VersionError, match=f"1, this engine speaks {events.WIRE_VERSION}: use the jar and the wheel"):
        FrameDecoder().decode(bytes(frame))
    answer = bytearray(encode_answer(Answer(1, 1, 0, False, Proposals.none(), "")))
    pack_into("<H", answer, 4, 1)
    with pytest.raises(VersionError, match=f"1 instead of {events.WIRE_VERSION}"):
        decode_answer(bytes(answer), 0)


def answer_of(transaction: list[int] | None = None, *, again: bool = False, unserved: bool = False) -> bytes:
    numbers = np.zeros(2, np.int32)
    proposals = Proposals(numbers, numbers, numbers, None if transaction is None else np.array(transaction, np.int32))
    return encode_answer(Answer(1, 5, 0, False, proposals, "", again, unserved))


def test_an_answer_has_transactions_and_flags() -> None:
    decoded = decode_answer(answer_of([3, 3], again=True), 2)
    assert decoded.proposals.transaction is not None
    assert decoded.proposals.transaction.tolist() == [3, 3]
    assert (decoded.again, decoded.unserved) == (True, False)
    decoded = decode_answer(answer_of(unserved=True), 2)
    assert (decoded.again, decoded.unserved) == (False, True)
    with pytest.raises(WireError) as caught:
        decode_answer(answer_of([1, 0]), 2)
    assert caught.value.field == "transaction"


def test_what_is_held_back_is_named_by_index() -> None:
    held = Held(np.array([0, 9], np.int32), np.array([(1 << 19) - 1, 1 << 19], np.int32))
    answer = encode_answer(Answer(1, 5, 0, False, Proposals.none(), "{}", held=held))
    found = decode_answer(answer, 0)
    assert [column.tolist() for column in found.held] == [[0, 9], [(1 << 19) - 1]]
    assert found.status == "{}"
    for size in (-1, (1 << 16) + 1):
        with pytest.raises(WireError, match="held"):
            decode_answer(answer[:40] + size.to_bytes(4, "little", signed=True) + answer[44:], 0)


# One schema: the annotations of events, the page docs/wire-format.md and the shim's table say the same.

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = ROOT / "java-shim" / "shim" / "src" / "main" / "resources" / "io" / "treadle" / "shim" / "wire"


def test_java_reads_the_schema_as_it_is() -> None:
    file = RESOURCES / "schema.json"
    found = json.loads(file.read_text("utf-8"))
    assert found == document(), f"run python -m treadle_lab.docs.wire {file.relative_to(ROOT)}"
    assert (found["wire"], found["fates"]) == (events.WIRE_VERSION, [fate.name for fate in events.Fate])
    assert [section["name"] for section in found["sections"]] == list(SECTIONS)


def test_a_section_is_an_event_and_every_column_of_it_has_a_type() -> None:
    kinds = [section.kind for section in SECTIONS.values()]
    assert kinds == list(range(1, len(kinds) + 1))
    for section in SECTIONS.values():
        assert section.event in get_args(events.Event)
        assert section.columns, section.name
        assert all(column.type in {"u8", "i32", "i64", "name", "R*i64"} for column in section.columns)


def test_bounds_come_from_the_annotations() -> None:
    (check,) = [check for check in plans(2)[SECTIONS["CONTAINERS"].kind].checks if check.columns == ("event",)]
    assert (check.low, check.high) == (1, 4)
    assert get_args(Annotated[U8, code(events.NodeState)])[1].remark == "0 gone, 1 usable, 2 unusable"
    assert Section(7, "NODES") == events.Nodes.SECTION


def test_columns_that_are_not_given_are_zero() -> None:
    free = np.arange(4).reshape(2, 2)
    nodes = filled(events.Nodes, 2, node=[3, 4], state=1, free=free)
    assert nodes.node.dtype == np.int32
    assert nodes.state.tolist() == [1, 1]
    assert nodes.total.tolist() == [[0, 0], [0, 0]]
    assert nodes.free.tolist() == free.tolist()
    with pytest.raises(TypeError, match="Nodes has no column fre"):
        filled(events.Nodes, 2, fre=free)
    with pytest.raises(ValueError, match="the column node has 1 rows instead of 2"):
        filled(events.Nodes, 2, node=[1], resources=1)

"""Whatever is encoded is decoded to the same, and whatever else is decoded raises `WireError`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from treadle import events
from treadle.events import NAMES, Proposals
from treadle.wire.answer import Answer, decode_answer, encode_answer
from treadle.wire.frames import (
    SECTIONS,
    CheckPlan,
    ColumnPlan,
    FrameDecoder,
    FrameEncoder,
    FrameFlag,
    FrameHeader,
    SectionPlan,
    WireError,
    plans,
)

I64 = st.integers(-(2**63), 2**63 - 1)
NARROW = {"FATES"}
"""Sections whose events have other rows than they."""
TEXTS = st.lists(st.text(st.characters(codec="utf-8")), max_size=5, unique=True)


def columns_of(plan: SectionPlan, rows: int, names: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({each.field: _column(each, plan.checks, rows, names) for each in plan.columns})


def _column(column: ColumnPlan, checks: tuple[CheckPlan, ...], rows: int, names: int) -> st.SearchStrategy[Any]:
    shape = (rows, column.resources) if column.resources else (rows,)
    bounds = next(((check.low, check.high) for check in checks if column.name in check.columns), None)
    if bounds is None:
        return arrays.arrays(column.dtype, shape)
    high = names - 1 if bounds[1] == NAMES else bounds[1]
    return arrays.arrays(column.dtype, shape, elements=st.integers(bounds[0], high))


@st.composite
def frames(draw: st.DrawFn) -> tuple[FrameHeader, list[events.Event]]:
    resources = draw(st.integers(1, 4))
    epoch = draw(I64)
    header = FrameHeader(
        int(FrameFlag.SNAPSHOT) | draw(st.sampled_from([0, 2, 4, 6])),
        epoch,
        draw(st.integers(1, 2**63 - 1)),
        draw(I64),
        draw(st.integers(-(2**31), 2**31 - 1)),
        draw(st.integers(0, 2**31 - 1)),
        resources,
    )
    texts = ("", *(text for text in draw(TEXTS) if text))
    text = st.sampled_from(texts)
    found: list[events.Event] = [events.Snapshot(epoch), events.Names(texts)]
    if draw(st.booleans()):
        named = st.lists(text, min_size=resources, max_size=resources).map(tuple)
        counted = draw(arrays.arrays(np.uint8, resources, elements=st.integers(0, 1)))
        amounts = arrays.arrays(np.int64, resources)
        found.append(events.ResourceTypes(draw(named), draw(named), counted, draw(amounts), draw(amounts)))
    settings = draw(st.dictionaries(text, text, max_size=3))
    if settings:
        found.append(events.Settings(settings))
    for plan in plans(resources).values():
        if plan.kind > SECTIONS["SETTINGS"].kind and plan.name not in NARROW and draw(st.booleans()):
            rows = draw(st.integers(1, 5))
            found.append(plan.event(**draw(columns_of(plan, rows, len(texts)))))
    return header, found


def same(left: events.Event, right: events.Event) -> bool:
    assert type(left) is type(right)
    for field in fields(left):
        ours, theirs = getattr(left, field.name), getattr(right, field.name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            assert np.array_equal(ours, theirs), field.name
        else:
            assert ours == theirs, field.name
    return True


@given(frames())
def test_events_come_back_from_their_frame(frame: tuple[FrameHeader, list[events.Event]]) -> None:
    header, found = frame
    decoded = FrameDecoder().decode(FrameEncoder().encode(header, found))
    assert decoded.header == header
    assert len(decoded.events) == len(found)
    assert all(map(same, decoded.events, found))


@st.composite
def fates(draw: st.DrawFn) -> events.Fates:
    rows = draw(st.integers(1, 12))
    columns: dict[str, st.SearchStrategy[Any]] = {
        "sequence": arrays.arrays(np.int64, rows, elements=st.integers(1, 2)),
        "position": arrays.arrays(np.int32, rows, elements=st.integers(0, 3)),
        "fate": arrays.arrays(np.uint8, rows, elements=st.integers(0, 2)),
    }
    return events.filled(events.Fates, rows, **{name: draw(column) for name, column in columns.items()})


@given(fates())
def test_fates_come_back_from_their_runs(found: events.Fates) -> None:
    header = FrameHeader(int(FrameFlag.SNAPSHOT), 1, 1, 0, 0, 0, 2)
    decoded = FrameDecoder().decode(FrameEncoder().encode(header, [events.Names(("",)), found]))
    assert same(decoded.events[-1], found)


@given(frames(), st.data())
def test_a_cut_frame_is_refused(frame: tuple[FrameHeader, list[events.Event]], data: st.DataObject) -> None:
    encoded = FrameEncoder().encode(*frame)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    assert refused(encoded[:cut])


@given(frames(), st.data())
def test_a_changed_byte_is_decoded_or_refused(
    frame: tuple[FrameHeader, list[events.Event]], data: st.DataObject
) -> None:
    encoded = bytearray(FrameEncoder().encode(*frame))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    decoder = FrameDecoder()
    try:
        decoded = decoder.decode(bytes(encoded))
    except WireError as error:
        assert error.field
        assert decoder_wants_a_snapshot(decoder)
    else:
        assert all(within_bounds(event) for event in decoded.events)


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(noise: bytes) -> None:
    assert refused(noise)
    assert refused(b"TRDF\x02\x00\x01\x00" + noise)


@given(
    st.lists(st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * 3), max_size=5),
    I64,
    I64,
    I64,
    st.booleans(),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_answers_come_back(
    rows: list[tuple[int, ...]], epoch: int, sequence: int, decide_us: int, resend: bool, status: str
) -> None:
    columns = np.array(rows, np.int32).reshape(-1, 3).T
    encoded = encode_answer(Answer(epoch, sequence, decide_us, resend, Proposals(*columns), status))
    decoded = decode_answer(encoded, len(rows))
    assert decoded[:4] == (epoch, sequence, decide_us, resend)
    assert decoded.status == status
    proposals = decoded.proposals
    assert np.array_equal([proposals.application, proposals.key, proposals.node], columns)
    if rows:
        assert answer_refused(encoded, len(rows) - 1)
    assert answer_refused(encoded[:-1], len(rows))


@given(st.binary(max_size=100))
def test_random_bytes_are_no_answer(noise: bytes) -> None:
    assert answer_refused(noise, 10)


def refused(frame: bytes) -> bool:
    try:
        FrameDecoder().decode(frame)
    except WireError as error:
        return bool(error.field and error.problem)
    return False


def answer_refused(frame: bytes, rows_max: int) -> bool:
    try:
        decode_answer(frame, rows_max)
    except WireError as error:
        return bool(error.field and error.problem)
    return False


def decoder_wants_a_snapshot(decoder: FrameDecoder) -> bool:
    delta = FrameEncoder().encode(FrameHeader(0, 1, 2, 0, 0, 0, 2), [])
    try:
        decoder.decode(delta)
    except WireError as error:
        return error.field == "flags"
    return False


def within_bounds(event: events.Event) -> bool:
    for field in fields(event):
        if field.name in {"application", "node", "queue", "key"}:
            column = getattr(event, field.name)
            assert column.max() < events.INDEX_MAX
            assert column.min() >= -1
    return True

"""The bytes that Java and Python agree on: tests/golden has them, and what they say."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treadle import events
from treadle.proposals import Proposals
from treadle.wire.answer import Answer, decode_answer, encode_answer
from treadle.wire.frames import FrameDecoder, FrameEncoder, FrameHeader
from treadle.wire.schema import SECTIONS

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="module")
def frame() -> bytes:
    return (GOLDEN / "frame-snapshot.bin").read_bytes()


@pytest.fixture(scope="module")
def described() -> Any:
    return json.loads((GOLDEN / "frame-snapshot.json").read_text("utf-8"))


def expected_events(described: Any) -> list[events.Event]:
    sections = described["sections"]
    texts = sections["STRINGS"]["texts"]
    types = sections["RESOURCE_TYPES"]
    settings = sections["SETTINGS"]
    found: list[events.Event] = [
        events.Snapshot(described["header"]["epoch"]),
        events.Names(tuple(texts)),
        events.ResourceTypes(
            names=tuple(texts[index] for index in types["name"]),
            units=tuple(texts[index] for index in types["units"]),
            counted=np.array(types["counted"], np.uint8),
            minimum=np.array(types["minimum"], np.int64),
            maximum=np.array(types["maximum"], np.int64),
        ),
        events.Settings(
            {texts[key]: texts[value] for key, value in zip(settings["key"], settings["value"], strict=True)}
        ),
    ]
    for section in list(SECTIONS.values())[3:]:
        if section.name in ("CONTAINER_STEPS", "FATES"):
            continue
        # A column of type R*i64 is written as a list for each resource type.
        described_columns = sections[section.name]
        event: Any = section.event
        found.append(event(**{each.field: np.array(described_columns[each.name]).T for each in section.columns}))
    return found


def test_every_section_is_there(described: Any) -> None:
    assert list(described["sections"]) == list(SECTIONS)


def test_the_golden_frame_says_what_its_description_says(frame: bytes, described: Any) -> None:
    decoded = FrameDecoder().decode(frame)
    assert decoded.header == FrameHeader(**described["header"])
    steps, fates = decoded.events[-3:-1]
    assert isinstance(steps, events.Containers)
    assert isinstance(fates, events.Fates)
    wanted = expected_events(described)
    wanted[-1:-1] = [steps, fates]
    assert steps.time_ms.tolist() == [decoded.header.rm_time_ms - 250, decoded.header.rm_time_ms + 5]
    assert steps.exit_status.tolist() == [0, -105]
    assert steps.container.tolist() == described["sections"]["CONTAINERS"]["container"][:1] * 2
    assert fates.sequence.tolist() == [41, 41, 41, 41, 40]
    assert fates.position.tolist() == [0, 1, 2, 3, 7]
    assert fates.fate.tolist() == [0, 0, 0, 16, 30]
    assert [type(event) for event in decoded.events] == [type(event) for event in wanted]
    for ours, theirs in zip(decoded.events, wanted, strict=True):
        for field in fields(ours):
            left, right = getattr(ours, field.name), getattr(theirs, field.name)
            assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, field.name


def test_the_same_events_give_the_same_bytes(frame: bytes, described: Any) -> None:
    header = FrameHeader(**described["header"])
    told = expected_events(described)
    steps, fates = described["sections"]["CONTAINER_STEPS"], described["sections"]["FATES"]
    told.append(events.filled(events.ContainerSteps, 2, **steps))
    told.append(events.filled(events.FateRuns, 3, **fates))
    assert FrameEncoder().encode(header, told) == frame


def test_the_golden_answer_is_read_and_written() -> None:
    encoded = (GOLDEN / "proposals.bin").read_bytes()
    described = json.loads((GOLDEN / "proposals.json").read_text("utf-8"))
    columns = [np.array(described[name], np.int32) for name in ("application", "key", "node", "transaction")]
    decoded = decode_answer(encoded, 100)
    named = ("flags", "epoch", "sequence", "decide_us", "base")
    assert (decoded.resend + 4, *decoded[:3], decoded.base) == tuple(described[name] for name in named)
    assert not decoded.busy
    assert decoded.status == described["status"]
    proposals = decoded.proposals
    said = (proposals.application, proposals.key, proposals.node, proposals.transaction)
    for ours, theirs in zip(said, columns, strict=True):
        assert ours is not None
        assert np.array_equal(ours, theirs)
    answer = Answer(*decoded[:3], True, Proposals(*columns), described["status"], described["base"])
    assert encode_answer(answer) == encoded


def test_an_event_that_is_not_on_the_wire_is_refused() -> None:
    one = np.zeros(1, np.int32)
    header = FrameHeader(0, 1, 1, 0, 0, 16, 2)
    with pytest.raises(ValueError, match="PlanRanks is not on the wire"):
        FrameEncoder().encode(header, [events.PlanRanks(one, one, np.ones(1))])

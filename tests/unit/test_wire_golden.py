"""The bytes that Java and Python agree on: tests/golden has them, and what they say."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from tests.support.golden import GOLDEN, described_events, description, golden_answer, golden_frame

from treadle import events
from treadle.wire.answer import decode_answer
from treadle.wire.frames import SECTIONS, FrameDecoder, FrameEncoder, FrameHeader, ProposalFlag


@pytest.fixture(scope="module")
def frame() -> bytes:
    return (GOLDEN / "frame-snapshot.bin").read_bytes()


@pytest.fixture(scope="module")
def described() -> Any:
    return description("frame-snapshot")


def test_every_section_is_there(described: Any) -> None:
    assert list(described["sections"]) == list(SECTIONS)


def test_the_golden_frame_says_what_its_description_says(frame: bytes, described: Any) -> None:
    decoded = FrameDecoder().decode(frame)
    assert decoded.header == FrameHeader(**described["header"])
    fates = decoded.events[-2]
    assert isinstance(fates, events.Fates)
    wanted = described_events(described)
    wanted[-1:-1] = [fates]
    assert fates.sequence.tolist() == [41, 41, 41, 41, 40]
    assert fates.position.tolist() == [0, 1, 2, 3, 7]
    assert fates.fate.tolist() == [0, 0, 0, 16, 30]
    assert [type(event) for event in decoded.events] == [type(event) for event in wanted]
    for ours, theirs in zip(decoded.events, wanted, strict=True):
        for field in fields(ours):
            left, right = getattr(ours, field.name), getattr(theirs, field.name)
            assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, field.name


def test_the_same_events_give_the_same_bytes(frame: bytes) -> None:
    assert golden_frame() == frame


def test_the_golden_answer_is_read_and_written() -> None:
    encoded = (GOLDEN / "proposals.bin").read_bytes()
    described = description("proposals")
    columns = [np.array(described[name], np.int32) for name in ("application", "key", "node", "transaction")]
    decoded = decode_answer(encoded, 100)
    assert decoded[:3] == tuple(described[name] for name in ("epoch", "sequence", "decide_us"))
    flags = ProposalFlag.RESEND | ProposalFlag.TRANSACTIONS | ProposalFlag.UNSERVED | ProposalFlag.HELD
    assert (described["flags"], decoded.resend, decoded.again, decoded.unserved) == (flags, True, False, True)
    assert decoded.status == described["status"]
    assert [column.tolist() for column in decoded.held] == [described["held_applications"], described["held_nodes"]]
    proposals = decoded.proposals
    said = (proposals.application, proposals.key, proposals.node, proposals.transaction)
    for ours, theirs in zip(said, columns, strict=True):
        assert ours is not None
        assert np.array_equal(ours, theirs)
    assert golden_answer() == encoded


def test_the_golden_files_are_of_this_version(frame: bytes) -> None:
    for golden in (frame, (GOLDEN / "proposals.bin").read_bytes()):
        assert int.from_bytes(golden[4:6], "little") == events.WIRE_VERSION


def test_an_event_that_is_not_on_the_wire_is_refused() -> None:
    one = np.zeros(1, np.int32)
    header = FrameHeader(0, 1, 1, 0, 0, 16, 2)
    with pytest.raises(ValueError, match="PlanRanks is not on the wire"):
        FrameEncoder().encode(header, [events.PlanRanks(one, one, np.ones(1))])

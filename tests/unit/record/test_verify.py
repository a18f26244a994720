"""Recordings of a simulated cluster behind the live session are decided again, to the byte."""

from __future__ import annotations

import io
import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.cli import Cli
from tests.support.make_recordings import POLICIES, record
from tests.support.wired import WiredEngine

from treadle.cli.main import run
from treadle.config.part_files import PartStoppedError
from treadle.config.reader import parse_settings
from treadle.events import Proposals
from treadle.record.files import (
    FILE_HEADER,
    MAGIC,
    VERSION,
    Body,
    ChunkReader,
    ChunkWriter,
    RecordingError,
    Tick,
    segment_record,
    segments,
    settings_record,
    tick_record,
)
from treadle.record.reader import RecordedSegment, open_segment, summarise
from treadle.replay import verify as verifying
from treadle.replay.verify import verify
from treadle.wire.answer import decode_answer, encode_answer

T = TypeVar("T")


@pytest.mark.parametrize("policy", ["deficits", "learns"])
def test_segments_are_replayed_one_after_the_other_and_every_answer_is_as_recorded(tmp_path: Path, policy: str) -> None:
    record(tmp_path / "rec", POLICIES[policy], every=40)
    files = segments(tmp_path / "rec")
    assert len(files) > 2
    verdict = verify(files)
    assert verdict.first is None, verdict.first
    assert verdict.notes == []
    assert (verdict.segments, verdict.form_only, verdict.different, verdict.same) == (len(files), 0, 0, True)
    assert verdict.proposals > 20


def read(file: Path) -> tuple[RecordedSegment, list[Tick]]:
    with open_segment(file) as recorded:
        return recorded, list(recorded.ticks)


def write(file: Path, recorded: RecordedSegment, ticks: list[Tick], *more: tuple[dict[str, Any], Body]) -> None:
    """Write a segment again, changed by a test."""
    with file.open("wb") as stream:
        writer = ChunkWriter(stream)
        records = [(segment_record(recorded.segment), []), settings_record(recorded.settings)]
        for head, body in (*records, *more, *map(tick_record, ticks), ({"kind": "end", "why": "written"}, [])):
            writer.write(head, *body)
        writer.flush()


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    record(folder / "rec", POLICIES["learns"], every=60)
    return folder / "rec"


@pytest.fixture
def recording(recorded_once: Path, tmp_path: Path) -> Path:
    """A recording that the test may change."""
    copied = tmp_path / "copy"
    shutil.copytree(recorded_once, copied)
    return copied


def test_a_difference_names_tick_frame_and_field(recording: Path) -> None:
    files = segments(recording)
    recorded, ticks = read(files[1])
    at = next(at for at, tick in enumerate(ticks) if len(decode_answer(tick.answer, 1 << 20).proposals) > 1)
    answer = decode_answer(ticks[at].answer, 1 << 20)
    node = answer.proposals.node.copy()
    node[1] += 1
    ticks[at].answer = encode_answer(answer._replace(proposals=replace(answer.proposals, node=node)))
    write(files[1], recorded, ticks)
    verdict = verify(files)
    assert verdict.first is not None
    assert (verdict.first.segment, verdict.first.tick, verdict.first.field) == (files[1].name, at + 1, "proposals")
    assert verdict.first.sequence == answer.sequence
    assert verdict.first.now.startswith("proposal 1 was (application, key, node)")
    assert verdict.different == 1


@pytest.mark.parametrize("field", ["status.policy", "resend", "proposals"])
def test_each_field_of_an_answer_is_compared(recording: Path, field: str) -> None:
    file = segments(recording)[0]
    recorded, ticks = read(file)
    answers = [decode_answer(tick.answer, 1 << 20) for tick in ticks]
    at = 0 if field == "status.policy" else next(at for at, each in enumerate(answers) if len(each.proposals))
    answer = answers[at]
    changed = {
        "status.policy": answer._replace(status=json.dumps(json.loads(answers[0].status) | {"policy": "another"})),
        "resend": answer._replace(resend=True),
        "proposals": answer._replace(proposals=Proposals.none()),
    }
    ticks[at].answer = encode_answer(changed[field])
    write(file, recorded, ticks)
    verdict = verify([file])
    assert verdict.first is not None
    assert (verdict.first.tick, verdict.first.field) == (at + 1, field)


def test_what_does_not_lead_back_to_the_start_of_its_sidecar_is_checked_for_form_and_not_verified(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    segments(recording)[0].unlink()
    monkeypatch.delattr(verifying, "ReplaySession")  # nothing decides
    verdict = verify(segments(recording))
    assert (verdict.segments, verdict.form_only, verdict.ticks) == (2, 2, 0)
    assert not verdict.same
    assert any("only the form was checked" in note for note in verdict.notes)
    capsys.readouterr()
    assert run(["replay", str(recording), "--verify"]) == 1
    said = capsys.readouterr().out
    assert "not verified: 0 of 2 segments replayed" in said
    assert "as recorded" not in said
    assert run(["replay", str(recording), "--verify", "--output=json"]) == 1
    assert json.loads(capsys.readouterr().out)["same"] is False


def test_a_form_that_is_not_right_is_refused(recording: Path) -> None:
    file = segments(recording)[1]
    recorded, ticks = read(file)
    at = next(at for at, tick in enumerate(ticks) if len(decode_answer(tick.answer, 1 << 20).proposals))
    answer, frame = ticks[at].answer, ticks[at].frame
    ticks[at].answer = ticks[at - 1].answer
    write(file, recorded, ticks)
    with pytest.raises(RecordingError, match=rf"tick {at + 1}: frame \d+ has the answer to \d+"):
        verify([file])
    ticks[at].answer, ticks[at].frame = answer, frame[:-1]
    write(file, recorded, ticks)
    with pytest.raises(RecordingError, match=f"tick {at + 1} cannot be read"):
        verify([file])


EVIL = Path(__file__).parents[2] / "proofs" / "security-proofs" / "rec-rce" / "evil-115ba469.rec"


def test_what_a_file_says_of_the_engine_s_state_is_passed_over(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    monkeypatch.setenv("PROOF_MARK", str(mark))
    chunks = ChunkReader(io.BytesIO(FILE_HEADER.pack(MAGIC, VERSION) + EVIL.read_bytes()[FILE_HEADER.size :]), "")
    state = next(each for each in chunks.records() if each.kind == "state")
    file = segments(recording)[0]
    recorded, ticks = read(file)
    write(file, recorded, ticks, (dict(state.head), [state.body]))
    verdict = verify([file])
    assert verdict.same
    assert verdict.ticks == len(ticks)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        ("segment", {"number": "first"}, "a segment without a valid header: number: "),
        ("settings", {"source": {"file": "t.yaml"}}, "settings that cannot be read: source.text: Field required"),
        ("tick", {"us": -1}, "a tick that cannot be read: us: "),
        ("tick", {"reading": {"source": None, "refusal": [], "bytes": 0}}, "a tick that cannot be read: reading."),
        (
            "tick",
            {"offline_events": [{"is": "System", "columns": []}]},
            "a tick that cannot be read: KeyError: 'System'",
        ),
    ],
)
def test_a_record_that_is_not_right_is_refused_with_its_field(
    kind: str, wrong: dict[str, Any], said: str, recording: Path, cli: Cli
) -> None:
    file = segments(recording)[0]
    with file.open("rb") as stream:
        records = list(ChunkReader(stream, "").records())
    at = next(at for at, each in enumerate(records) if each.kind == kind)
    records[at].head.update(wrong)
    with file.open("wb") as stream:
        writer = ChunkWriter(stream)
        for each in records:
            writer.write(each.head, each.body)
        writer.flush()
    for words in (["replay", "--verify"], ["recording", "show"]):
        assert said in cli([*words, str(file)], 2).err


@pytest.mark.parametrize("version", [1, 2, VERSION])
@pytest.mark.parametrize("trust", [(), ("--trust-code",)])
def test_a_recording_with_a_state_that_runs_code_runs_nothing(
    version: int,
    trust: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark, file = tmp_path / "mark", tmp_path / "evil.rec"
    monkeypatch.setenv("PROOF_MARK", str(mark))
    file.write_bytes(FILE_HEADER.pack(MAGIC, version) + EVIL.read_bytes()[FILE_HEADER.size :])
    code = run(["replay", str(file), "--verify", *trust])
    said = capsys.readouterr()
    assert not mark.exists()
    assert code == 2
    assert (f"is a recording of version {version}" if version != VERSION else "have another schema") in said.err


def test_a_segment_does_not_follow_one_that_is_missing(recording: Path, tmp_path: Path) -> None:
    files = segments(recording)
    assert len(files) > 2
    files[1].unlink()
    left = segments(recording)
    verdict = verify(left)
    assert (verdict.first, verdict.missing, verdict.form_only) == (None, 1, 1)
    assert verdict.notes[0] == f"{files[2].name}: the segment that it follows is missing, or its end is"
    assert verdict.notes[1].startswith(f"{files[2].name}: only the form was checked")
    found = summarise(left)
    assert (found.gaps, found.segments[1].follows) == (1, False)


def test_a_segment_does_not_follow_one_whose_end_is_missing(recording: Path) -> None:
    files = segments(recording)
    files[0].write_bytes(files[0].read_bytes()[:-30])
    assert summarise(files).gaps == 1
    verdict = verify(files)
    assert verdict.first is None, verdict.first
    assert any("the segment that it follows is missing" in note for note in verdict.notes)


def test_another_engine_is_reported_and_not_refused(recording: Path) -> None:
    file = segments(recording)[0]
    recorded, ticks = read(file)
    recorded.segment.engine_hash = "another"
    write(file, recorded, ticks)
    verdict = verify([file])
    assert verdict.first is None
    assert "another engine recorded it: another, here" in verdict.notes[0]


def test_a_file_that_is_cut_off_is_verified_up_to_there(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = segments(recording)[0]
    _, ticks = read(file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])
    verdict = verify([file])
    assert verdict.first is None
    assert 0 < verdict.ticks < len(ticks)
    assert "it is cut off" in verdict.notes[0]
    capsys.readouterr()
    assert run(["replay", str(file), "--verify"]) == 0
    said = capsys.readouterr().out
    assert "as recorded, to the byte, as far as it can be read" in said
    assert "all as recorded" not in said


def test_settings_read_again_are_followed_again(tmp_path: Path) -> None:
    kept = f"record: {{folder: {tmp_path / 'rec'}, segment_minutes: 1}}"
    texts = iter(["policy: {share: {kind: drf}}", "", "policy: {order: {kind: las}}"])
    steps = itertools.count()

    def during(engine: WiredEngine) -> None:
        if next(steps) % 20 == 10 and (text := next(texts, None)) is not None:
            engine.refuse = not text
            engine.next_settings = parse_settings("t.yaml", f"{kept}\n{text}\n")
            engine.configuration += 1

    record(tmp_path / "rec", POLICIES["default"], every=50, during=during)
    files = segments(tmp_path / "rec")
    readings = [tick.reading for file in files for tick in read(file)[1] if tick.reading is not None]
    assert len(readings) == 3
    assert "t.yaml: refused by the test" in readings[1].refusal
    verdict = verify(files)
    assert verdict.first is None, verdict.first


def test_a_frame_that_was_refused_for_a_snapshot_is_refused_again(tmp_path: Path) -> None:
    steps = itertools.count()

    def during(engine: WiredEngine) -> None:
        engine.wants = next(steps) == 30

    record(tmp_path / "rec", POLICIES["default"], every=100, during=during)
    files = segments(tmp_path / "rec")
    assert sum(tick.refused for file in files for tick in read(file)[1]) == 1
    verdict = verify(files)
    assert verdict.first is None, verdict.first


PART = """
class Newest:
    def __init__(self):
        self.asked = 0

    def keys(self, view):
        self.asked += 1
        return [float(at % (self.asked % 3 + 1)) for at in range(len(view.applications))]
"""


class StopsOnce:
    """A watch that stops one call to a part."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, function: Callable[[], T]) -> T:
        self.left -= 1
        if self.left == 0:
            raise PartStoppedError
        return function()


@pytest.mark.parametrize("stops_at", [0, 30])
def test_parts_from_files_are_run_again_if_they_are_trusted(tmp_path: Path, stops_at: int) -> None:
    (tmp_path / "part.py").write_text(PART)
    policy = f"policy: {{order: {{kind: file, path: {tmp_path}/part.py, class: Newest}}}}"
    record(tmp_path / "rec", policy, every=40, watch=StopsOnce(stops_at))
    (tmp_path / "part.py").unlink()
    files = segments(tmp_path / "rec")
    switches = [switch for file in files for tick in read(file)[1] for switch in tick.switches]
    assert len(switches) == bool(stops_at)
    with pytest.raises(RecordingError, match="--trust-code"):
        verify(files)
    verdict = verify(files, trust_code=True)
    assert verdict.first is None, verdict.first

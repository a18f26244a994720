"""The recorder beside the decisions: segments, bounds, what is dropped, what fails."""

from __future__ import annotations

import os
import stat
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.wired import Clock

from treadle import events
from treadle.config.reader import parse_settings
from treadle.config.settings import Record, Settings, default_settings
from treadle.errors import ConfigError
from treadle.events import Event, Names, PolicySwitch, Proposals, ResourceTypes, Snapshot
from treadle.files import RATIO_MAX
from treadle.live.recorder import ASK_S, LiveRecorder, SegmentWriter
from treadle.record import files
from treadle.record.files import (
    CHUNK_HEADER,
    FILE_HEADER,
    HEAD_BYTES_MAX,
    MAGIC,
    RECORD_HEADER,
    VERSION,
    ChunkReader,
    ChunkWriter,
    RecordingError,
    Tick,
    read_cost,
    segments,
    zstandard,
)
from treadle.record.reader import RecordedSegment, open_segment, summarise
from treadle.sidecar import conversation
from treadle.wire.answer import Answer, encode_answer
from treadle.wire.frames import FrameEncoder, FrameFlag, FrameHeader

ANSWER = encode_answer(Answer(1, 1, 5, False, Proposals.none(), ""))
OPEN: list[Caller] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a test has left open."""
    yield
    while OPEN:
        OPEN.pop().recorder._writer.close()


SNAPSHOT, MORE = int(FrameFlag.SNAPSHOT), int(FrameFlag.MORE)


class Caller:
    """What a session does with a recorder, and the recorder's own thread on request."""

    def __init__(self, folder: Path, writer: SegmentWriter | None = None, **settings: Any) -> None:
        self.clock = Clock()
        self.settings = replace(default_settings(), record=Record(folder=str(folder), **settings))
        self.recorder = LiveRecorder("", self.clock, writer)
        self.recorder.follow(self.settings)
        self.encoder = FrameEncoder()
        self.sequence = 0
        self.switches: list[PolicySwitch] = []
        OPEN.append(self)

    def frame(self, flags: int = 0, keys: bytes = b"") -> bytes:
        self.sequence += 1
        one = np.zeros(1, np.uint8)
        found: list[Event] = []
        if flags & SNAPSHOT:
            types = ResourceTypes(("memory-mb",), ("Mi",), one, one.astype(np.int64), one.astype(np.int64))
            found = [Snapshot(1), Names(("", "memory-mb", "Mi")), types]
        if keys:
            words = np.frombuffer(keys, np.int64)
            column = np.zeros(1, np.int32)
            found.append(events.AttemptKeys(column, column, *(words[at : at + 1] for at in range(4))))
        return self.encoder.encode(FrameHeader(flags, 1, self.sequence, 1000 * self.sequence, 0, 8, 1), found)

    def tick(self, flags: int = 0, *, keys: bytes = b"", frame: bytes = b"") -> bool:
        tick = conversation.Tick(frame or self.frame(flags, keys), 1 << 20, known="known", warnings=("warns",))
        self.recorder.begin(tick)
        tick.answer, tick.decide_us, tick.switches = ANSWER, 5, self.switches
        self.recorder.end(tick)
        return tick.asks_snapshot

    def short(self, answer: bytes, reading: Future[Settings] | None = None) -> None:
        """Take a frame and an answer, and nothing else."""
        tick = conversation.Tick(self.frame(), None, reading=reading, answer=answer)
        self.recorder.begin(tick)
        self.recorder.end(tick)

    def stop(self) -> None:
        """End the segment, and write what is left of it."""
        self.recorder._stop("over")
        self.recorder.work_off()


def read(path: Path) -> tuple[RecordedSegment, list[Tick]]:
    with open_segment(path) as recorded:
        return recorded, list(recorded.ticks)


def test_nothing_is_recorded_unless_a_folder_is_named() -> None:
    recorder = LiveRecorder()
    recorder.follow(default_settings())
    caller = Caller(Path("/nowhere"))
    tick = conversation.Tick(caller.frame(SNAPSHOT), None)
    recorder.begin(tick)
    recorder.end(tick)
    assert not tick.asks_snapshot
    assert (len(recorder._queue), recorder.summary(), recorder.warnings()) == (0, "", ())


def test_a_segment_has_what_entered_and_only_its_user_may_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    caller = Caller(folder)
    caller.tick(SNAPSHOT)
    caller.switches = [PolicySwitch(2, 1, "policy", "reason")]
    caller.tick()
    caller.tick()
    caller.stop()
    (path,) = segments(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    recorded, ticks = read(path)
    assert recorded.notes == []
    assert (recorded.segment.number, recorded.segment.follows, recorded.segment.dropped) == (1, False, 0)
    assert [tick.known for tick in ticks] == ["known", None, None]
    assert [tick.warnings for tick in ticks] == [("warns",), None, None]
    assert [len(tick.switches) for tick in ticks] == [0, 1, 0]
    assert {(tick.answer, tick.decide_us, tick.reply_max_bytes) for tick in ticks} == {(ANSWER, 5, 1 << 20)}


def test_a_segment_ends_with_what_recording_has_cost(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec")
    caller.tick(SNAPSHOT)
    caller.tick()
    caller.stop()
    (path,) = segments(tmp_path / "rec")
    recorded, _ = read(path)
    cost = recorded.cost
    assert 0 < cost.beside_us <= cost.process_us
    assert 0 < cost.writing_us <= cost.process_us
    assert cost.share == (cost.beside_us + cost.writing_us) / cost.process_us
    assert read_cost(files.Record({"kind": "end", "why": "an older release"}, b"")).share is None
    assert read_cost(files.Record({"kind": "end", "cost_us": ["a", 1, 2]}, b"")).share is None


def test_keys_of_attempts_are_in_no_file(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec")
    secret = bytes(range(1, 33))
    caller.tick(SNAPSHOT, keys=secret)
    caller.tick(keys=secret)
    caller.recorder.work_off()
    caller.recorder._writer.flush()
    _, ticks = read(segments(tmp_path / "rec")[0])
    assert len(ticks) == 2
    assert all(secret not in tick.frame for tick in ticks)


def test_the_next_segment_begins_with_a_snapshot_that_is_asked_for(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec", segment_minutes=1)
    assert [caller.tick(SNAPSHOT), caller.tick()] == [False, False]
    caller.clock.now_s = 60.0
    assert caller.tick(MORE) is False, "the answer to a part of a frame asks for nothing"
    assert caller.tick() is True
    assert caller.tick(SNAPSHOT) is False
    assert caller.tick() is False
    caller.stop()
    first, second = map(read, segments(tmp_path / "rec"))
    assert [tick.asks_snapshot for tick in first[1]] == [False, False, False, True]
    assert len(second[1]) == 2
    assert (second[0].segment.follows, second[0].segment.dropped) == (True, 0)
    assert not summarise(segments(tmp_path / "rec")).gaps


def test_only_what_begins_with_the_sidecar_can_be_replayed(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec", segment_minutes=1)
    caller.tick(SNAPSHOT)
    caller.clock.now_s = 60.0
    caller.tick()
    caller.tick(SNAPSHOT)
    caller.recorder.follow(replace(caller.settings, record=Record(folder=str(tmp_path / "second"))))
    caller.tick(SNAPSHOT)
    caller.stop()
    found = summarise(segments(tmp_path / "rec")).segments
    assert [each.from_start for each in found] == [True, True], "the second follows the first"
    assert [read(path)[0].segment.fresh for path in segments(tmp_path / "rec")] == [True, False]
    assert [each.from_start for each in summarise(segments(tmp_path / "second")).segments] == [False]


@pytest.mark.parametrize("follows_file", [True, False])
def test_a_recording_that_begins_later_or_with_another_policy_than_the_file_s_cannot_be_replayed(
    follows_file: bool, tmp_path: Path
) -> None:
    caller = Caller(tmp_path / "rec")
    caller.recorder = LiveRecorder(follows_file=follows_file)
    if follows_file:
        caller.tick(SNAPSHOT)  # nothing is recorded yet
    caller.recorder.follow(caller.settings)
    caller.tick(SNAPSHOT)
    caller.stop()
    assert [each.from_start for each in summarise(segments(tmp_path / "rec")).segments] == [False]


def test_bytes_that_are_no_frame_end_the_segment(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec")
    caller.tick(SNAPSHOT)
    caller.tick(frame=b"TRDF" + bytes(60))
    assert caller.recorder.gaps == 1


def test_a_segment_that_is_long_enough_ends(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec", size_mb=2, segment_mb=1)
    caller.tick(SNAPSHOT)
    for _ in range(3):
        caller.short(os.urandom(1 << 19))
        caller.recorder.work_off()
    assert caller.tick() is True


def test_what_has_no_room_is_dropped_and_the_next_segment_begins(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec", queue_mb=1)
    caller.tick(SNAPSHOT)
    caller.short(bytes(1 << 20))
    assert (caller.recorder.gaps, caller.recorder.dropped) == (1, 1)
    assert "1 gaps, 1 frames are not in it: the writer fell behind" in caller.recorder.warnings()[0]
    assert caller.tick() is True, "a snapshot is asked for"
    assert caller.tick() is False, "and not again at once"
    caller.clock.now_s += ASK_S
    assert caller.tick() is True
    caller.recorder.work_off()
    caller.tick(SNAPSHOT)
    caller.tick()
    caller.stop()
    first, second = map(read, segments(tmp_path / "rec"))
    assert (len(first[1]), len(second[1])) == (1, 2)
    assert (second[0].segment.follows, second[0].segment.dropped) == (False, 4)
    assert second[0].segment.why == "the writer fell behind"
    assert second[1][0].known == "known", "each segment says all"
    found = summarise(segments(tmp_path / "rec"))
    assert (found.gaps, found.dropped, found.frames) == (1, 4, 3)


class FullDisk(SegmentWriter):
    full = True

    def write(self, head: dict[str, Any], body: Any) -> None:
        if self.full and self._writer is not None:
            raise OSError(28, "No space left on device")
        super().write(head, body)


def test_a_full_disk_is_reported_and_recording_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = FullDisk()
    caller = Caller(tmp_path / "rec", disk)
    caller.tick(SNAPSHOT)
    caller.recorder.work_off()
    folder = tmp_path / "rec"
    assert caller.recorder.warnings() == [f"nothing is recorded: {folder}: No space left on device"]
    caller.tick()
    assert caller.recorder.gaps == 1
    FullDisk.full = False
    caller.clock.now_s += ASK_S
    assert caller.tick() is True
    caller.tick(SNAPSHOT)
    caller.recorder.work_off()
    caller.recorder._writer.flush()
    assert not caller.recorder.problem
    assert len(read(segments(tmp_path / "rec")[-1])[1]) == 1
    assert len(segments(tmp_path / "rec")) == 1, "a segment of which nothing was written is not left behind"


@pytest.mark.parametrize("length", [0, 3, 8])
def test_a_segment_that_ends_before_it_has_begun_is_left_out_and_reported(tmp_path: Path, length: int) -> None:
    caller = Caller(tmp_path / "rec")
    caller.tick(SNAPSHOT)
    caller.stop()
    (whole,) = segments(tmp_path / "rec")
    empty = whole.with_name("20200101T000000.000Z-1-000001.rec")
    empty.write_bytes(whole.read_bytes()[:length])
    found = summarise(segments(tmp_path / "rec"))
    assert found.frames == 1
    assert [empty.name in note and "nothing of it can be read" in note for note in found.notes] == [True]
    whole.unlink()
    with pytest.raises(RecordingError, match="nothing of it can be read"):
        summarise(segments(tmp_path / "rec"))


@pytest.mark.parametrize(
    ("name", "said"), [(".", "may be written by everybody"), ("not/there", "No such file or directory")]
)
def test_a_folder_that_cannot_be_used_is_reported(tmp_path: Path, name: str, said: str) -> None:
    tmp_path.chmod(0o777)
    caller = Caller(tmp_path / name)
    caller.tick(SNAPSHOT)
    caller.recorder.work_off()
    assert said in caller.recorder.warnings()[0]
    assert list(tmp_path.iterdir()) == []


def test_of_another_folder_nothing_is_missing_that_came_before_its_first_segment(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "first")
    caller.tick(SNAPSHOT)
    caller.recorder.gaps = 3
    caller.recorder.follow(replace(caller.settings, record=Record(folder=str(tmp_path / "second"))))
    assert caller.tick() is True, "a snapshot is asked for"
    caller.tick(SNAPSHOT)
    assert caller.recorder.warnings() == []
    assert "frames not" not in caller.recorder.summary()
    caller.stop()
    found = summarise(segments(tmp_path / "second"))
    assert (found.whole, found.dropped, found.gaps, found.notes) == (True, 0, 0, [])


def test_what_fails_in_the_folder_before_is_no_gap_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullDisk, "full", False)
    caller = Caller(tmp_path / "first", FullDisk())
    caller.tick(SNAPSHOT)
    caller.recorder.work_off()
    monkeypatch.setattr(FullDisk, "full", True)
    caller.recorder.follow(replace(caller.settings, record=Record(folder=str(tmp_path / "second"))))
    caller.recorder.work_off()  # the end of the segment in the first folder has no room there
    monkeypatch.setattr(FullDisk, "full", False)
    caller.tick()
    caller.tick(SNAPSHOT)
    caller.recorder.work_off()
    caller.tick()
    assert caller.recorder.warnings() == []
    assert len(segments(tmp_path / "second")) == 1


def test_the_oldest_go_when_there_is_too_much_or_it_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("treadle.live.recorder.utc", lambda: now)
    writer = SegmentWriter(lambda: now)
    folder = tmp_path / "rec"
    bounds = Record(folder=str(folder), size_mb=4, segment_mb=2, age_hours=2)
    for number in range(1, 5):
        writer.begin(bounds, "", number)
        writer.write({"kind": "tick"}, [os.urandom(1 << 20)])
        now += timedelta(minutes=1)
    writer.begin(bounds, "", 5)
    assert [path.name[-10:-4] for path in segments(folder)] == ["000003", "000004", "000005"][-len(segments(folder)) :]
    assert sum(path.stat().st_size for path in segments(folder)) <= 4 << 20
    (folder / "notes.txt").write_text("a user's own")
    now += timedelta(hours=3)
    writer.begin(bounds, "", 6)
    assert [path.name[-10:-4] for path in segments(folder)] == ["000006"]
    assert (folder / "notes.txt").exists()
    writer.close()


def test_settings_read_again_are_recorded_with_their_text_or_why_they_were_refused(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "rec")
    caller.tick(SNAPSHOT)
    hdrf = parse_settings("t.yaml", "policy: {share: {kind: hdrf}}\n")
    for outcome in (hdrf, ConfigError("t.yaml", [])):
        reading: Future[Settings] = Future()
        if isinstance(outcome, Settings):
            reading.set_result(outcome)
        else:
            reading.set_exception(outcome)
        caller.short(b"", reading)
    caller.stop()
    assert summarise(segments(tmp_path / "rec")).policies == [default_settings().policy.name(), hdrf.policy.name()]
    _, (_, taken, refused) = read(segments(tmp_path / "rec")[0])
    assert taken.reading is not None
    assert taken.reading.source is not None
    assert taken.reading.source.text == "policy: {share: {kind: hdrf}}\n"
    assert refused.reading is not None
    assert refused.reading.source is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("folder: rec", "record.folder: 'rec': it must be an absolute path, or empty (default '')"),
        ("size_mb: 100", "record.segment_mb: 64: it must be at most half of size_mb (100); raise size_mb or lower it"),
        ("foldr: /rec", "record.foldr: 'foldr' is not one of"),
        ("age_hours: 0", "record.age_hours: 0: it must be greater than or equal to 1"),
    ],
)
def test_a_mistake_in_settings_names_file_field_and_remedy(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings("t.yaml", f"record:\n  {text}\n")
    assert said in refused.value.lines()[0]
    assert refused.value.lines()[0].startswith("t.yaml:")


# Files of chunks: what was written before a crash is read, damage is reported.

RECORDS = [({"kind": "tick", "at": at}, bytes([at]) * (at * 100)) for at in range(20)]


def written(each_flushed: bool = True) -> bytes:
    stream = BytesIO()
    writer = ChunkWriter(stream)
    for head, body in RECORDS:
        writer.write(head, body)
        if each_flushed:
            writer.flush()
    writer.flush()
    assert writer.bytes == len(stream.getvalue())
    return stream.getvalue()


def read_of_little(content: bytes) -> tuple[list[int], str]:
    """Read a file that is small, and makes its reader need little memory."""
    assert len(content) < 1 << 16
    tracemalloc.start()
    try:
        found = read_chunks(content)
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()
    return found


def read_chunks(content: bytes) -> tuple[list[int], str]:
    reader = ChunkReader(BytesIO(content), "a.rec")
    found = [(record.head, record.body) for record in reader.records()]
    assert found == RECORDS[: len(found)]
    return [head["at"] for head, _ in found], reader.damage


@pytest.mark.parametrize("each_flushed", [True, False])
def test_records_are_read_as_they_were_written(each_flushed: bool) -> None:
    assert read_chunks(written(each_flushed)) == (list(range(20)), "")


class NearlyFull(BytesIO):
    """Takes a part of what is written, as a raw file on a disk without much room."""

    def write(self, data: Any) -> int:
        return super().write(bytes(data[:100]))


def test_a_stream_that_takes_a_part_gets_the_rest() -> None:
    stream = NearlyFull()
    writer = ChunkWriter(stream)
    for head, body in RECORDS:
        writer.write(head, body)
    writer.flush()
    assert read_chunks(stream.getvalue()) == (list(range(20)), "")


def test_what_was_whole_before_the_end_is_read_wherever_the_file_ends() -> None:
    content = written()
    ends = {FILE_HEADER.size}
    at = FILE_HEADER.size
    while at < len(content):
        at += CHUNK_HEADER.size + CHUNK_HEADER.unpack_from(content, at)[0]
        ends.add(at)
    for length in range(FILE_HEADER.size, len(content)):
        found, damage = read_chunks(content[:length])
        assert len(found) == sum(end <= length for end in ends) - 1
        assert bool(damage) == (length not in ends)
        assert not damage or "cut off" in damage


def test_a_damaged_byte_ends_the_reading_and_is_reported() -> None:
    content = bytearray(written())
    first = CHUNK_HEADER.unpack_from(content, FILE_HEADER.size)[0]
    content[FILE_HEADER.size + CHUNK_HEADER.size + first + CHUNK_HEADER.size + 3] ^= 0x40
    found, damage = read_chunks(bytes(content))
    assert found == [0]
    assert "checksum" in damage


def file_of(content: bytes, stated: int | None = None, repeats: int = 1) -> bytes:
    """Return a file of one chunk that unpacks to a content, several times over, and states another length."""
    packer = zstandard().ZstdCompressor(level=1).compressobj()
    parts = [packer.compress(content) for _ in range(repeats)]
    packed = b"".join([*parts, packer.flush(zstandard().COMPRESSOBJ_FLUSH_BLOCK)])
    stated = len(content) * repeats if stated is None else stated
    return FILE_HEADER.pack(MAGIC, VERSION) + CHUNK_HEADER.pack(len(packed), stated, zlib.crc32(packed)) + packed


@pytest.mark.parametrize(
    ("stated", "said"),
    [(100, "it unpacks to more than the 100 bytes that it states"), (None, f"more than {RATIO_MAX} times as many")],
)
def test_a_chunk_that_expands_out_of_proportion_is_damage_and_costs_no_memory(stated: int | None, said: str) -> None:
    found, damage = read_of_little(file_of(bytes(1 << 20), stated, repeats=512))
    assert found == []
    assert said in damage


def test_what_no_reader_would_accept_is_not_written() -> None:
    stream = BytesIO()
    writer = ChunkWriter(stream)
    with pytest.raises(RecordingError, match="readers accept"):
        writer.write({"kind": "tick", "known": "x" * HEAD_BYTES_MAX})
    writer.write({"kind": "tick"}, bytes(32 << 20))
    with pytest.raises(RecordingError, match="which no reader accepts"):
        writer.flush()
    writer.flush()
    assert len(stream.getvalue()) == FILE_HEADER.size


@pytest.mark.parametrize(
    ("head", "length", "damage"),
    [
        (b"[" * 100_000, 0, "a record at 0 of a chunk is not readable"),
        (b"{", 0, "a record at 0 of a chunk is not readable"),
        (b'"\xff"', 0, "a record at 0 of a chunk is not readable"),
        (b"{}", 0xFFFFFFFF, "a record is cut off at the end of its chunk"),
    ],
)
def test_a_record_that_is_none_is_damage(head: bytes, length: int, damage: str) -> None:
    assert read_chunks(file_of(RECORD_HEADER.pack(len(head), length) + head)) == ([], damage)


def test_a_head_beyond_the_bound_is_damage_and_costs_no_memory() -> None:
    head = b'{"x":[' + b"{}," * 5_000_000 + b"{}]}"
    found = read_of_little(file_of(RECORD_HEADER.pack(len(head), 0) + head))
    assert found == ([], "the head of a record at 0 of a chunk has more than 4 MiB")


@pytest.mark.parametrize("text", ["é" * (1 << 19), "\n" * (1 << 20), "😀" * (1 << 18)])
def test_the_longest_settings_fit_a_head(text: str) -> None:
    assert len(text.encode()) == 1 << 20
    stream = BytesIO()
    writer = ChunkWriter(stream)
    writer.write({"kind": "settings", "source": {"text": text}})
    writer.flush()
    (record,) = ChunkReader(BytesIO(stream.getvalue()), "a.rec").records()
    assert record.head["source"]["text"] == text


def test_a_length_that_cannot_be_is_damage() -> None:
    content = bytearray(written())
    content[FILE_HEADER.size : FILE_HEADER.size + 4] = b"\xff\xff\xff\xff"
    assert read_chunks(bytes(content))[1] == "the chunk at byte 8 is damaged"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing of it can be read: it ends at byte 0"),
        (b"TRDREC", "nothing of it can be read: it ends at byte 6"),
        (b"PK\x03\x04 something", "is not a recording"),
        (FILE_HEADER.pack(MAGIC, 99), "of version 99, and this release reads version 3 alone"),
        (FILE_HEADER.pack(MAGIC, 1), "of version 1, and this release reads version 3 alone; .* or record again"),
    ],
)
def test_another_file_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        ChunkReader(BytesIO(content), "a.rec")

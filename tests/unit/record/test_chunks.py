"""Files of chunks: what was written before a crash is read, damage is reported."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from treadle.files import RATIO_MAX
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
    zstandard,
)

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


def read(content: bytes) -> tuple[list[int], str]:
    reader = ChunkReader(BytesIO(content), "a.rec")
    found = [(record.head, record.body) for record in reader.records()]
    assert found == RECORDS[: len(found)]
    return [head["at"] for head, _ in found], reader.damage


@pytest.mark.parametrize("each_flushed", [True, False])
def test_records_are_read_as_they_were_written(each_flushed: bool) -> None:
    assert read(written(each_flushed)) == (list(range(20)), "")


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
    assert read(stream.getvalue()) == (list(range(20)), "")


def test_what_was_whole_before_the_end_is_read_wherever_the_file_ends() -> None:
    content = written()
    ends = {FILE_HEADER.size}
    at = FILE_HEADER.size
    while at < len(content):
        at += CHUNK_HEADER.size + CHUNK_HEADER.unpack_from(content, at)[0]
        ends.add(at)
    for length in range(FILE_HEADER.size, len(content)):
        found, damage = read(content[:length])
        assert len(found) == sum(end <= length for end in ends) - 1
        assert bool(damage) == (length not in ends)
        assert not damage or "cut off" in damage


def test_a_damaged_byte_ends_the_reading_and_is_reported() -> None:
    content = bytearray(written())
    first = CHUNK_HEADER.unpack_from(content, FILE_HEADER.size)[0]
    content[FILE_HEADER.size + CHUNK_HEADER.size + first + CHUNK_HEADER.size + 3] ^= 0x40
    found, damage = read(bytes(content))
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
    bomb = file_of(bytes(1 << 20), stated, repeats=512)
    assert len(bomb) < 1 << 16
    tracemalloc.start()
    try:
        found, damage = read(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == []
    assert said in damage
    assert peak < 128 << 20


def test_what_no_reader_would_accept_is_not_written() -> None:
    stream = BytesIO()
    writer = ChunkWriter(stream)
    writer.write({"kind": "tick"}, bytes(32 << 20))
    with pytest.raises(RecordingError, match="which no reader accepts"):
        writer.flush()
    writer.flush()
    assert len(stream.getvalue()) == FILE_HEADER.size


@pytest.mark.parametrize("head", [b"[" * 100_000, b"{", b'"\xff"'])
def test_a_head_that_is_not_json_is_damage(head: bytes) -> None:
    assert read(file_of(RECORD_HEADER.pack(len(head), 0) + head))[1] == "a record at 0 of a chunk is not readable"


def test_a_head_beyond_the_bound_is_damage_and_costs_no_memory() -> None:
    head = b'{"x":[' + b"{}," * 5_000_000 + b"{}]}"
    file = file_of(RECORD_HEADER.pack(len(head), 0) + head)
    assert len(file) < 1 << 16
    tracemalloc.start()
    try:
        found, damage = read(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found, damage) == ([], "the head of a record at 0 of a chunk has more than 4 MiB")
    assert peak < 128 << 20


@pytest.mark.parametrize("text", ["é" * (1 << 19), "\n" * (1 << 20), "😀" * (1 << 18)])
def test_the_longest_settings_fit_a_head(text: str) -> None:
    assert len(text.encode()) == 1 << 20
    stream = BytesIO()
    writer = ChunkWriter(stream)
    writer.write({"kind": "settings", "source": {"text": text}})
    writer.flush()
    (record,) = ChunkReader(BytesIO(stream.getvalue()), "a.rec").records()
    assert record.head["source"]["text"] == text


def test_a_head_that_no_reader_would_accept_is_not_written() -> None:
    writer = ChunkWriter(BytesIO())
    with pytest.raises(RecordingError, match="readers accept"):
        writer.write({"kind": "tick", "known": "x" * HEAD_BYTES_MAX})


def test_a_record_that_is_longer_than_its_chunk_is_damage() -> None:
    content = RECORD_HEADER.pack(2, 0xFFFFFFFF) + b"{}"
    assert read(file_of(content)) == ([], "a record is cut off at the end of its chunk")


def test_a_length_that_cannot_be_is_damage() -> None:
    content = bytearray(written())
    content[FILE_HEADER.size : FILE_HEADER.size + 4] = b"\xff\xff\xff\xff"
    assert read(bytes(content))[1] == "the chunk at byte 8 is damaged"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing of it can be read: it ends at byte 0"),
        (b"TRDREC", "nothing of it can be read: it ends at byte 6"),
        (b"PK\x03\x04 something", "is no recording"),
        (
            FILE_HEADER.pack(MAGIC, 99),
            "of version 99, and this release reads version 2 alone",
        ),
        (FILE_HEADER.pack(MAGIC, 1), "of version 1, and this release reads version 2 alone; .* or record again"),
    ],
)
def test_another_file_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        ChunkReader(BytesIO(content), "a.rec")


KILLED = """
import os, sys
from treadle.record.files import ChunkWriter
stream = open(sys.argv[1], "wb", buffering=0)
writer = ChunkWriter(stream)
for at in range(100):
    writer.write({"kind": "tick", "at": at}, os.urandom(1000))
    if at % 10 == 9:
        writer.flush()
writer.write({"kind": "tick", "at": 100}, b"never in the file")
os.kill(os.getpid(), 9)
"""


def test_a_killed_writer_leaves_what_it_flushed(tmp_path: Path) -> None:
    file = tmp_path / "a.rec"
    done = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    assert done.returncode == -9
    with file.open("rb") as stream:
        reader = ChunkReader(stream, str(file))
        assert [record.head["at"] for record in reader.records()] == list(range(100))
        assert reader.damage == ""

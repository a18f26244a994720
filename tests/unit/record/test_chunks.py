"""Files of chunks: what was written before a crash is read, damage is reported."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from treadle.record.chunks import CHUNK_HEADER, FILE_HEADER, MAGIC, ChunkReader, ChunkWriter, RecordingError

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
        (FILE_HEADER.pack(MAGIC, 99), "of version 99: this release reads up to"),
    ],
)
def test_another_file_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        ChunkReader(BytesIO(content), "a.rec")


KILLED = """
import os, sys
from treadle.record.chunks import ChunkWriter
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

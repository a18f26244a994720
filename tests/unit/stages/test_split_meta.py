"""job.splitmetainfo as Hadoop writes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.stages.split_meta import HEADER, SplitMetaError, read_splits, staged_splits
from treadle.stages.splits import Split


def vlong(value: int) -> bytes:
    """Write a number as `WritableUtils.writeVLong` does."""
    if -112 <= value <= 127:
        return value.to_bytes(1, signed=True)
    first, rest = (-112, value) if value >= 0 else (-120, ~value)
    size = max(1, (rest.bit_length() + 7) // 8)
    return (first - size).to_bytes(1, signed=True) + rest.to_bytes(size)


def content(*splits: Split) -> bytes:
    """Write a file as `JobSplitWriter` does."""
    made = HEADER + vlong(1) + vlong(len(splits))
    for number, split in enumerate(splits):
        made += vlong(len(split.hosts)) + b"".join(vlong(len(host)) + host.encode() for host in split.hosts)
        made += vlong(number << 27) + vlong(split.bytes)
    return made


SPLITS = [Split(1 << 27, ("a.example", "b.example")), Split(200, ("c" * 200,)), Split(7), Split(0)]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = staged_splits(f"{tmp_path}/{{user}}/.staging", "ann", "application_17_0004")
    assert file == tmp_path / "ann" / ".staging" / "job_17_0004" / "job.splitmetainfo"
    file.parent.mkdir(parents=True)
    file.write_bytes(content(*SPLITS))
    assert read_splits(file) == SPLITS


def test_a_file_that_hadoop_wrote(tmp_path: Path) -> None:
    # the first four maps of a SleepJob of 24 as Hadoop 3.4.2 wrote them: no hosts, and no bytes
    file = tmp_path / "job.splitmetainfo"
    file.write_bytes(HEADER + bytes.fromhex("01 04 000700 003700 006700 008f9700"))
    assert read_splits(file) == [Split(0)] * 4


@pytest.mark.parametrize("cut", [0, 4, 8, 9, 10, 11, 30])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "job.splitmetainfo"
    file.write_bytes(content(*SPLITS)[:cut])
    with pytest.raises(SplitMetaError, match=r"job\.splitmetainfo"):
        read_splits(file)


def test_nobody_waits_for_a_pipe_in_place_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.splitmetainfo"
    os.mkfifo(file)
    with pytest.raises(SplitMetaError, match="no plain file"):
        read_splits(file)


@pytest.mark.parametrize("wrong", [HEADER + vlong(2), HEADER + vlong(1) + vlong(10**6), HEADER + vlong(1) + vlong(-1)])
def test_another_version_and_impossible_counts_are_refused(tmp_path: Path, wrong: bytes) -> None:
    file = tmp_path / "job.splitmetainfo"
    file.write_bytes(wrong + bytes(3))
    with pytest.raises(SplitMetaError):
        read_splits(file)

"""Logs do not grow without end."""

from __future__ import annotations

import os
from pathlib import Path

from treadle.processes import shorten


def test_what_is_too_long_becomes_the_older_file_and_others_go_on_appending(tmp_path: Path) -> None:
    log, older = tmp_path / "sidecar.log", tmp_path / "sidecar.log.1"
    with log.open("ab", buffering=0) as ours, log.open("ab", buffering=0) as another:
        ours.write(b"first ")
        shorten(ours.fileno(), 6)
        assert (log.read_bytes(), older.exists()) == (b"first ", False)
        another.write(b"second ")
        shorten(ours.fileno(), 6)
        assert (log.read_bytes(), older.read_bytes()) == (b"", b"first second ")
        another.write(b"third third ")
        ours.write(b"fourth ")
        shorten(ours.fileno(), 6)
        another.write(b"fifth")
        assert (log.read_bytes(), older.read_bytes()) == (b"fifth", b"third third fourth ")


def test_a_link_by_the_name_of_the_older_file_is_not_followed(tmp_path: Path) -> None:
    log, precious = tmp_path / "sidecar.log", tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "sidecar.log.1").symlink_to(precious)
    with log.open("ab", buffering=0) as ours:
        ours.write(b"too long")
        shorten(ours.fileno(), 1)
    assert precious.read_text() == "kept"
    assert (tmp_path / "sidecar.log.1").read_text() == "too long"


def test_a_full_disk_costs_the_older_lines_alone(tmp_path: Path) -> None:
    log = tmp_path / "sidecar.log"
    (tmp_path / "sidecar.log.1").mkdir()
    with log.open("ab", buffering=0) as ours:
        ours.write(b"too long")
        shorten(ours.fileno(), 1)
    assert log.read_bytes() == b""


def test_what_is_not_a_file_is_left_alone() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"too long")
        shorten(writing, 1)
        assert os.read(reading, 100) == b"too long"
    finally:
        os.close(reading)
        os.close(writing)

"""A file is written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from treadle.files import write_whole


def test_a_new_file_is_for_this_user_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "ä")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa4"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_mode_and_content_are_there_at_once(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"1", lambda file: os.fchmod(file, 0o644))
    write_whole(tmp_path / "a", b"2", lambda file: os.fchmod(file, 0o640))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert (tmp_path / "a").read_text() == "2"


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "old")

    def refuse(_: int) -> None:
        raise PermissionError("no")

    with pytest.raises(PermissionError):
        write_whole(tmp_path / "a", "new", refuse)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "a").symlink_to(tmp_path / "other")
    write_whole(tmp_path / "a", "new")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "a").is_symlink()

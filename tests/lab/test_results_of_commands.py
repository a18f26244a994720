"""Where long commands put their results is looked at before the work, not after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.files import written

from treadle.cli._options import check_writable
from treadle.cli.main import run

LONG = [
    ("graphene", "--out", "file"),
    ("graphene", "--plot", "folder"),
    ("hdrf", "--out", "file"),
    ("slearn --trace FOLDER", "--out", "file"),
    ("slearn --trace FOLDER", "--plot", "folder"),
]


@pytest.mark.parametrize(("command", "option", "kind"), LONG)
def test_results_that_cannot_be_written_are_reported_before_the_work(
    command: str, option: str, kind: str, tmp_path: Path, cli: Cli
) -> None:
    target = written(tmp_path / "sample.tsv", "") / "results"  # below a file nothing can be written
    told = cli(["lab", "reproduce", *command.replace("FOLDER", str(tmp_path)).split(), option, str(target)], 2)
    assert told.err.strip() == f"{option}: {target}: Not a directory; name a {kind} that can be written"
    assert told.out == ""


def test_a_file_of_results_keeps_what_it_holds_until_there_are_new_ones(tmp_path: Path) -> None:
    earlier = written(tmp_path / "figures.json", "{}")
    assert run(["lab", "reproduce", "hdrf", "--test", "Z", "--out", str(earlier)]) == 2
    assert earlier.read_text() == "{}"


def test_no_empty_file_of_results_is_left_by_work_that_does_not_end(tmp_path: Path) -> None:
    target, link = tmp_path / "new" / "figures.json", tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere.json")
    for place in (target, link):
        check_writable("--out", place)
    assert not target.exists()
    assert link.is_symlink()

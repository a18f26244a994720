"""docs/write-a-policy.md: its files are written, its commands run, and what it says they print is what they print."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.documents import blocks, commands, files_of

from treadle.cli.main import run

PAGE = Path(__file__).parents[2] / "docs" / "write-a-policy.md"
LIVE = {"use", "status"}
"""Commands that need a cluster: tests/integration/test_user_policy.py runs them."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in files_of(PAGE).items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_is_a_file_or_commands() -> None:
    assert {language for language, _ in blocks(PAGE)} == {"python", "yaml", "console"}
    assert len(files_of(PAGE)) == sum(language != "console" for language, _ in blocks(PAGE))


@pytest.mark.parametrize(("command", "output"), commands(PAGE), ids=lambda value: value[:40])
def test_its_commands_print_what_it_says(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, output: str
) -> None:
    program, *arguments = shlex.split(command)
    assert program == "treadle"
    if LIVE & set(arguments):
        assert output == ""
        return
    code = run(arguments)
    printed = capsys.readouterr()
    assert printed.out + printed.err == output
    assert code == (2 if printed.err else 0)


def test_its_test_passes(folder: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "test_favourites.py"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr

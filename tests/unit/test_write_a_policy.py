"""docs/write-a-policy.md: its files are written, its commands run, and what it says they print is what they print.

The diff of docs/compiled-parts.md is applied.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.documents import blocks, commands, files_of

from treadle.cli.main import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "write-a-policy.md"
COMPILED = ROOT / "docs" / "compiled-parts.md"
LIVE = {"use", "status"}
"""Commands that need a cluster: tests/integration/test_user_policy.py runs them."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in files_of(PAGE).items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_is_a_file_or_commands() -> None:
    languages = [language for language, _ in blocks(PAGE)]
    assert set(languages) == {"python", "yaml", "console"}
    assert len(files_of(PAGE)) == sum(language in ("python", "yaml") for language in languages)


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
        [sys.executable, "test_smallest.py"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr


def test_the_compiled_share_that_it_shows_is_all_there_is_to_one(tmp_path: Path) -> None:
    package = Path("python") / "treadle"
    shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (diff,) = (text for language, text in blocks(COMPILED) if language == "diff")
    applied = subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, capture_output=True)
    assert applied.returncode == 0, f"the diff of the page does not fit the sources any more: {applied.stderr}"
    code = """
from treadle.policy.catalogue import BUILTIN_PARTS
from treadle.policy.shares.rules import RULES, even
assert {each.make.steps for each in BUILTIN_PARTS if each.part == "share"} == RULES.keys()
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "python")},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert ended.returncode == 0, ended.stderr

"""Extras are installed from the project's own wheel: an index may hold another project under its name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from treadle import __version__
from treadle.errors import install_extra

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
BY_INDEX = re.compile(r"\btreadle\[\w+\]")
WHEEL = re.compile(r"treadle-([\d.]+)-py3-none-any\.whl(?:\[(\w+)\])?")


def test_no_text_installs_an_extra_by_the_name_in_an_index() -> None:
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "python").rglob("*.py")]
    assert [file.relative_to(ROOT).as_posix() for file in files if BY_INDEX.search(file.read_text("utf-8"))] == []


def test_pages_name_wheels_of_this_version_and_extras_that_exist() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = [found.groups() for page in pages for found in WHEEL.finditer(page.read_text("utf-8"))]
    assert len(named) > 5
    assert {version for version, _ in named} == {__version__}
    assert {extra for _, extra in named if extra} <= EXTRAS.keys()


def test_every_message_names_an_extra_that_exists() -> None:
    used = {
        extra
        for file in (ROOT / "python").rglob("*.py")
        for extra in re.findall(r"install_extra\(['\"](\w+)['\"]\)", file.read_text("utf-8"))
    }
    assert len(used) > 5
    assert used <= EXTRAS.keys()
    assert install_extra("record") == f"pip install 'treadle-{__version__}-py3-none-any.whl[record]'"

"""docs/tutorial.md as a reader follows it: its boxes go through one shell, and what it says is printed is printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.documents import blocks

from treadle_lab.minicluster import processes
from treadle_lab.minicluster.site import Layout

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
FOLDER = ROOT / "build" / "tutorial"
END = "@@@ end of box"


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder that the page works in; it is left empty, and nothing runs, whatever happens."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    yield FOLDER
    layout = Layout.load(FOLDER / "cluster")
    if layout is not None:
        processes.end(layout)
    shutil.rmtree(FOLDER, ignore_errors=True)


def script(boxes: list[tuple[str, str]]) -> str:
    """Return what a reader types: files, commands, and after each box of these a line of our own."""
    lines = ["set -e"]
    for language, text in boxes:
        name = re.match(r"# (\S+\.\w+)\n", text)
        if name:
            lines.append(f"cat > {name[1]} <<'END OF FILE'\n{text}END OF FILE")
        elif language == "sh":
            lines.append(f"{text}echo '{END}'")
    return "\n".join([*lines, ""])


def plain(text: str) -> str:
    """Return a text without lines of tables, with single blanks, and with # for numbers."""
    return re.sub(r"\d+", "#", re.sub(r"[\s\u2500-\u257f]+", " ", text))


def test_the_page_has_boxes_of_known_kinds_alone() -> None:
    assert {language for language, _ in blocks(PAGE)} == {"sh", "text", "python", "yaml"}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_tutorial_works_as_it_stands(folder: Path, tmp_path: Path) -> None:
    boxes = blocks(PAGE)
    log = tmp_path / "tutorial.log"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TREADLE", "HADOOP"))}
    with log.open("w") as out:
        done = subprocess.run(
            ["bash", "-c", script(boxes)], cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, check=False
        )
    printed = log.read_text()
    assert done.returncode == 0, printed[-5000:]
    outputs = printed.split(END)
    assert len(outputs) == 1 + sum(language == "sh" for language, _ in boxes)
    box = -1
    for language, text in boxes:
        box += language == "sh"
        rest = plain(outputs[box])
        for line in text.splitlines() if language == "text" else []:
            _, found, rest = rest.partition(plain(line).strip())
            assert found, f"docs/tutorial.md says that this is printed: {line}\n{outputs[box][-5000:]}"
    assert not (folder / "cluster" / "cluster.json").exists(), "the page leaves a cluster running"

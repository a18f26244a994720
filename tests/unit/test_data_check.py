"""`treadle data check`, and the page that lists the data sets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.lab.harness.checksums import read_sums

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


def test_the_data_of_a_checkout_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check"]) == 0
    said = capsys.readouterr().out
    assert said.count(" right ") == len(read_sums(DATA))
    assert "not listed" not in said


def test_the_page_has_the_size_and_the_sum_of_each_file() -> None:
    page = (ROOT / "docs" / "data.md").read_text()
    for name, wanted in read_sums(DATA).items():
        assert f"| `{name}` | {(DATA / name).stat().st_size:,} | `{wanted}` |" in page
    for folder in (path for path in DATA.iterdir() if path.is_dir()):
        assert f"](../data/{folder.name}/README.md)" in page


def test_what_differs_or_is_missing_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    shutil.copytree(DATA, folder)
    (folder / "tpch-spark-cloudlab" / "edges.csv").write_text("query,stage,child\n")
    (folder / "rcpsp" / "J30.jsonl.xz").unlink()
    (folder / "mine.csv").write_text("1\n")
    assert run(["data", "check", str(folder)]) == 1
    told = capsys.readouterr()
    rows = {line.split("│")[1].strip(): line.split("│")[3].strip() for line in told.out.splitlines() if "│" in line}
    assert rows["tpch-spark-cloudlab/edges.csv"] == "differs"
    assert rows["rcpsp/J30.jsonl.xz"] == "missing"
    assert rows["mine.csv"] == "not listed"
    assert rows["rcpsp/J60.jsonl.xz"] == "right"
    assert f"2 of {len(read_sums(DATA)) + 1} files are not what they were" in told.err


@pytest.mark.parametrize(
    ("sums", "told"),
    [(None, "it lists what must be there"), ("abc  x", "SHA256SUMS:1: 'abc  x'"), (f"{'0' * 64}  ../x", ":1: ")],
)
def test_a_folder_without_a_list_is_no_success(
    tmp_path: Path, sums: str | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if sums is not None:
        (tmp_path / "SHA256SUMS").write_text(sums + "\n")
    assert run(["data", "check", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err

"""`python -m treadle_lab.docs.pages`: figures are kept with where they come from, and pages show them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_lines import parse

from treadle.cli.main import run
from treadle.errors import UserError
from treadle_lab.docs.pages import read_rows, rendered_all, run_and_keep
from treadle_lab.rows import Row, as_document

RESULTS = Path(__file__).parents[2] / "docs" / "results"
INTERVAL = {"mean": 1.325, "low": 1.26, "high": 1.4}
FIGURES: dict[str, Any] = {
    "seeds": [1, 2, 3],
    "intervals": {"speedup_mean": {"3sigma-paper": INTERVAL}},
    "tables": {
        "slearn-times": {
            "title": "Times",
            "heading": ["", "over SLearn's", "paper", "median"],
            "names": 1,
            "rows": [["3Sigma by the paper's letter", INTERVAL, "1.56", None]],
        }
    },
}
ROW = """
- mechanism: SLearn over 3Sigma
  page: slearn.md
  faithful: as written
  paper: "1.56"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of results: a page that asks for a table, and a summary of one line."""
    (tmp_path / "kept").mkdir()
    kept = {"command": "treadle lab reproduce slearn", "day": "2026-11-23", "machine": "2 cores", "version": "0.1.0"}
    (tmp_path / "kept" / "slearn.json").write_text(json.dumps({**kept, "note": "busy machine", "figures": FIGURES}))
    (tmp_path / "slearn.md").write_text(
        "# SLearn\n\n<!-- results: slearn-times of slearn -->\nstale\n<!-- to here -->\n\nAs told.\n"
    )
    (tmp_path / "summary.yaml").write_text(f"{ROW}  kept: slearn\n  at: intervals.speedup_mean.3sigma-paper\n")
    return tmp_path


def render(folder: Path) -> None:
    for page, text in rendered_all(folder).items():
        page.write_text(text, "utf-8")


def test_the_pages_are_up_to_date() -> None:
    for page, text in rendered_all(RESULTS).items():
        assert page.read_text("utf-8") == text, f"{page.name}: run python -m treadle_lab.docs.pages docs/results"


@pytest.mark.parametrize("file", sorted((RESULTS / "kept").glob("*.json")), ids=lambda file: file.stem)
def test_this_version_takes_the_command_of_a_kept_result_or_its_note_names_the_commit_that_does(file: Path) -> None:
    kept = json.loads(file.read_text("utf-8"))
    if kept["command"]:
        parse(kept["command"].removeprefix("treadle "), typed=True)
    else:
        assert re.search(r"commit [0-9a-f]{8}\b", kept["note"])


def test_every_line_of_the_summary_leads_to_its_page() -> None:
    rows = read_rows(RESULTS / "summary.yaml")
    assert len(rows) > 10
    assert [row.page for row in rows if not (RESULTS / row.page.partition("#")[0]).is_file()] == []


def test_figures_that_are_text_stand_on_their_pages() -> None:
    """A number of the summary that was not kept is a number of its page."""
    missing = []
    for row in read_rows(RESULTS / "summary.yaml"):
        text = (RESULTS / row.page.partition("#")[0]).read_text("utf-8")
        missing += [
            f"{row.mechanism}: {number}"
            for number in re.findall(r"\d+(?:\.\d+)?", f"{row.here} {row.interval}")
            if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", text)
        ]
    assert missing == []


def test_a_table_says_where_its_figures_come_from(folder: Path) -> None:
    render(folder)
    page = (folder / "slearn.md").read_text()
    assert "stale" not in page
    assert (
        "`treadle lab reproduce slearn`: seeds 1 to 3; 2026-11-23; 2 cores; busy machine ([figures](kept/slearn.json))."
        in page
    )
    assert "| 3Sigma by the paper's letter | 1.32 (1.26 to 1.40) | 1.56 | \N{EN DASH} |" in page
    assert page.endswith("<!-- to here -->\n\nAs told.\n")
    summary = (folder / "summary.md").read_text()
    assert "| [SLearn over 3Sigma](slearn.md) | as written | 1.56 | 1.32 | 1.26 to 1.40 |  |" in summary
    assert "not kept" not in summary
    assert rendered_all(folder) == {folder / "slearn.md": page, folder / "summary.md": summary}


def test_keys_of_figures_may_have_dots(folder: Path) -> None:
    file = folder / "kept" / "slearn.json"
    kept = json.loads(file.read_text())
    kept["figures"]["schemes"] = {"hdrf": {"n1.1": {"median_tasks": INTERVAL}}}
    file.write_text(json.dumps(kept))
    (folder / "summary.yaml").write_text(f"{ROW}  kept: slearn\n  at: schemes.hdrf.n1.1.median_tasks\n")
    render(folder)
    assert "| 1.32 | 1.26 to 1.40 |" in (folder / "summary.md").read_text()


def test_a_line_may_name_a_figure_and_a_series_of_rows(folder: Path) -> None:
    rows = [Row("mean (s)", "las", "", seed, value, "s") for seed, value in ((1, 2.0), (2, 4.0))]
    file = folder / "kept" / "slearn.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"figures": kept["figures"] | as_document(rows)}))
    (folder / "summary.yaml").write_text(f"{ROW}  kept: slearn\n  at: mean (s) of las\n")
    render(folder)
    assert "| 3.00 | -9.71 to 15.7 |" in (folder / "summary.md").read_text()


def test_what_was_not_kept_is_marked(folder: Path) -> None:
    (folder / "summary.yaml").write_text(f'{ROW}  here: "1.33"\n  interval: 1.26 to 1.40\n')
    render(folder)
    summary = (folder / "summary.md").read_text()
    assert r"| 1.33 \* | 1.26 to 1.40 |" in summary
    assert "was not kept" in summary


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("summary.yaml", "  kept: slearn\n  at: intervals.speedup_mean.none\n", "there is no none"),
        ("summary.yaml", "  kept: slearn\n  at: intervals.none.3sigma-paper\n", "there is no none.3sigma-paper"),
        ("summary.yaml", "  kept: slearn\n  at: seeds\n", "is not an interval"),
        ("summary.yaml", "  kept: other\n  at: seeds\n", "other.json: no kept result"),
        ("summary.yaml", "  kept: slearn\n", "give kept and at, or here"),
        ("summary.yaml", "  here: '1'\n  kept: slearn\n  at: seeds\n", "give kept and at, or here"),
        ("summary.yaml", "  here: '1'\n  colour: red\n", "0.colour: 'red': Extra inputs"),
        ("slearn.md", "slearn-times of other -->\n<!-- to here -->", "other.json: no kept result"),
        ("slearn.md", "none of slearn -->\n<!-- to here -->", "slearn has no table none; it has slearn-times"),
        ("slearn.md", "slearn-times of slearn -->\n", "<!-- to here --> behind the table"),
    ],
)
def test_a_wrong_line_of_the_summary_or_mark_of_a_page_is_refused(
    folder: Path, file: str, text: str, complaint: str
) -> None:
    head = ROW if file == "summary.yaml" else "# SLearn\n\n<!-- results: "
    (folder / file).write_text(f"{head}{text}\n")
    with pytest.raises(UserError, match=re.escape(complaint)):
        rendered_all(folder)


def test_a_folder_without_a_summary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"summary.yaml: cannot be read: No such file or directory; check the path"):
        rendered_all(tmp_path)


def test_an_experiment_is_run_and_kept(folder: Path, tmp_path: Path) -> None:
    work = tmp_path / "dags.jsonl"
    assert run(["lab", "dags", "--seed", "1", "--out", str(work)]) == 0
    words = ["one-plan", "lab", "plan", str(work), "--algorithm", "bfs"]
    subprocess.run([sys.executable, "-m", "treadle_lab.docs.pages", str(folder), *words], check=True, timeout=300)
    assert "stale" not in (folder / "slearn.md").read_text()
    kept = json.loads((tmp_path / "kept" / "one-plan.json").read_text())
    assert kept["command"] == f"treadle lab plan {work} --algorithm bfs"
    assert kept["note"] == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["day"])
    assert "cores" in kept["machine"]
    assert kept["figures"]["rows"][0]["algorithm"] == "bfs"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["a/b", "lab", "plan"], "named by letters"),
        (["plan", "lab", "plan", "x", "--out", "y"], "leave --out away"),
        (["plan", "lab", "plan", "no-such-file.jsonl"], "ended with exit code 2; nothing was kept"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path: Path, words: list[str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        run_and_keep(words[0], words[1:], tmp_path)
    assert not (tmp_path / "kept").exists()


def test_a_file_that_is_no_kept_result_is_refused(folder: Path) -> None:
    (folder / "kept" / "slearn.json").write_text("{}")
    with pytest.raises(UserError, match=r"slearn.json: no kept result .*; python -m treadle_lab.docs.pages"):
        rendered_all(folder)

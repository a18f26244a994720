"""A policy whose part fails while it is measured has no figures; what the engine warns of is shown and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import run

SCENARIO = """\
cluster: {nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {capacity: 50}, b: {capacity: 50}}
workload:
  generator:
    jobs: 12
    mean_gap_s: 2
    tasks: {kind: constant, mean: 6}
    duration_s: {kind: constant, mean: 5}
    demand: {memory-mb: 1024, vcores: 1}
"""
# The tryout of a part makes it anew for each small cluster, and asks it some ten times.
FAILS_LATER = """\
class Lifo:
    def __init__(self):
        self.calls = 0

    def keys(self, view):
        self.calls += 1
        if self.calls == 25:
            raise RuntimeError("lifo has had enough")
        return -view.application_id if hasattr(view, "application_id") else [0.0] * len(view.applications)
"""
FAILS_AT_ONCE = FAILS_LATER.replace("== 25", ">= 1")
LIFO = "policy: {order: {kind: file, path: lifo.py, class: Lifo}}\n"
MISSPELT = "policy: {share: {kind: hdrf, tree: {x: {queue: root.a}, y: {queue: root.bb}}}}\n"
SAID = "lifo.py:8: RuntimeError: lifo has had enough"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "lifo.py").write_text(FAILS_LATER)
    (tmp_path / "lifo50.yaml").write_text(LIFO)
    (tmp_path / "fifo.yaml").write_text("policy: {order: {kind: fifo}}\n")
    (tmp_path / "misspelt.yaml").write_text(MISSPELT)
    return tmp_path


def treadle(folder: Path, command: str) -> tuple[int, dict[str, Any]]:
    """Run a command with the folder's files in place of ``{}``; return its exit code and its results."""
    code = run([word.replace("{}", str(folder)) for word in command.split()])
    results = folder / "r.json"
    return code, json.loads(results.read_text() or "{}") if results.exists() else {}


COMMANDS = (
    "simulate {}/s.yaml --out {}/r.json --no-check",
    "lab bench engine --nodes 10 --rows 10 --leaves 1 --batch 16 --seconds 0.1 --out {}/r.json",
    "lab bench simulator --load jobs --nodes 2 --out {}/r.json",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_part_that_fails_ends_the_run(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, results = treadle(folder, f"{command} --policy {{}}/lifo50.yaml --policy {{}}/fifo.yaml")
    assert code == 2
    assert not results
    said = capsys.readouterr().err
    assert "lifo50: policy.order (lifo.py:Lifo): " + SAID in said
    assert "--keep-going" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_part_that_fails_has_no_figures_and_the_others_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (folder / "lifo.py").write_text(FAILS_AT_ONCE)
    code, results = treadle(folder, f"{command} --keep-going --policy {{}}/lifo50.yaml --policy {{}}/fifo.yaml")
    assert code == 1
    rows = results.get("runs") or results["results"]
    assert [row["policy"] for row in rows] == ["lifo50", "fifo"]
    failed, well = rows
    assert SAID in failed["failure"]
    assert set(failed) <= {"policy", "seed", "failure", "load", "nodes", "rows", "leaves"}, "no figures"
    assert well["failure"] is None
    assert len(well) > len(failed)
    captured = capsys.readouterr()
    row = next(line for line in captured.out.splitlines() if "lifo50" in line)
    assert "failed" in row
    assert SAID in captured.out + captured.err


def test_seeds_that_went_well_are_no_mean_of_a_policy_that_failed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "lifo.py").write_text(FAILS_LATER.replace("== 25", "== 115"))
    code, results = treadle(folder, f"{COMMANDS[0]} --keep-going --seeds 4 --policy {{}}/lifo50.yaml")
    failures = [row["failure"] for row in results["runs"]]
    assert 0 < failures.count(None) < 4, "some seeds ask it more often than others"
    assert code == 1
    assert [timing["seed"] for timing in results["timing"]] == [
        row["seed"] for row in results["runs"] if row["failure"] is None
    ]
    row = next(line for line in capsys.readouterr().out.splitlines() if "lifo50" in line)
    assert f"{4 - failures.count(None)} failed" in row
    assert not any(character.isdigit() for character in row.partition("failed")[2])


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_engine_warns_of_is_shown_and_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, results = treadle(folder, f"{command} --policy {{}}/misspelt.yaml --policy {{}}/fifo.yaml")
    assert code == 0
    rows = results.get("runs") or results["results"]
    warned = [text for text in rows[0]["warnings"] if "root.bb" in text]
    assert len(warned) == 1
    assert rows[1]["warnings"] == []
    captured = capsys.readouterr()
    assert f"misspelt: warning: {warned[0]}" in captured.out + captured.err

"""What a policy names of a scenario's queues: an error where it names none, and `treadle policy check --scenario`."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import run

SCENARIO = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}, b: {children: {c: {}}}}
workload: {jobs: [{queue: a, stages: [{tasks: 1, duration_s: 1, demand: {memory-mb: 1024, vcores: 1}}]}]}
"""
NONE = "policy: {share: {kind: hdrf, tree: {x: {children: {etl: {queue: root.etl}}}, a: {}}}}\n"
ONE = "policy: {share: {kind: hdrf, tree: {x: {queue: root.a}, y: {queue: root.b.d}}}}\n"
ALL = "policy: {share: {kind: hdrf, tree: {x: {queue: root.a}, y: {queue: root.b.c}}}}\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return file


def policy(folder: Path, text: str) -> str:
    file = folder / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_tree_that_names_no_leaf_does_not_run(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = policy(scenario.parent, NONE)
    assert run(["simulate", str(scenario), "--policy", file]) == 2
    out, said = capsys.readouterr()
    assert "compiling" not in out, "the error comes at once"
    assert "policy.share.tree: the tree names no leaf queue of" in said
    assert "root.a, root.b.c" in said
    assert "root.etl, a" in said


def test_a_check_tells_each_queue_that_is_no_leaf(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = policy(scenario.parent, ONE)
    assert run(["policy", "check", file]) == 0
    capsys.readouterr()
    assert run(["policy", "check", file, "--scenario", str(scenario)]) == 2
    said = capsys.readouterr()
    assert "root.b.d is no leaf queue of the scenario; did you mean root.b.c?" in said.err
    assert "warning:" in said.err
    assert "does not name root.b.c" in said.err
    assert "right" not in said.out


def test_a_check_of_what_goes_together(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "check", policy(scenario.parent, ALL), "--scenario", str(scenario)]) == 0
    said = capsys.readouterr()
    assert "right" in said.out
    assert not said.err


def test_a_check_against_what_is_no_scenario(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "check", "hdrf", "--scenario", str(scenario.parent / "none.yaml")]) == 2
    assert "none.yaml: cannot be read" in capsys.readouterr().err

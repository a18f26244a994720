"""`treadle lab dags` writes the same DAGs for the same seeds, and says what is wrong with its options."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.files import written

from treadle.cli.main import run
from treadle.workload.formats import read_workload
from treadle_lab.dags import read_instances


def test_the_same_seed_gives_the_same_dag(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("all", "again", "third")]
    for file, seeds in zip(files, ("1..3", "1..3", "3"), strict=True):
        assert run(["lab", "dags", "--seed", seeds, "--stages", "10..12", "--out", str(file)]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes().splitlines()[2:] == files[2].read_bytes().splitlines()
    assert [made.dag.name for made in read_instances(files[0])] == ["generated-1", "generated-2", "generated-3"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--seed", "3..1", "--seed: '3..1'; give numbers from 0 on"),
        ("--seed", "x", "--seed: 'x'; give a number, or a range such as 1..100"),
        ("--machines", "0", "machines: 0; give 1 to 100000"),
        ("--machines", "100001", "machines: 100001; give 1 to 100000"),
        ("--stages", "999999999", "stages: 999999999..999999999; give two numbers from 1 to 10000"),
        ("--stages", "2", "stages: at least 2, but up to 9 layers; give more stages"),
        ("--out", "/dev/null/x", "--out: /dev/null/x: Not a directory; name a file"),
    ],
)
def test_a_wrong_option_is_reported(cli: Cli, option: str, value: str, message: str) -> None:
    assert message in cli(["lab", "dags", option, value], 2).err


def test_what_treadle_dags_writes_is_a_workload(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "dags.jsonl"
    command = ["lab", "dags", "--seed=1..2", "--stages=3", "--depth=2", "--tasks=50..60", f"--out={file}"]
    assert run(command) == 0
    found = read_workload(file)
    assert len(found.jobs) == 2
    assert {job.arrival_ms for job in found.jobs} == {0}
    assert "dag: DAGs to plan" in cli(["workload", "show", str(file)]).out


def test_an_empty_file_of_dags_is_no_plan(tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path / "empty.jsonl", "\n")
    assert "empty; write one JSON object a line" in cli(["lab", "plan", str(file)], 2).err

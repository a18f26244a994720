"""Jobs that can never run are an error unless the user allows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.cli.main import run

SMALL = """
cluster:
  nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]
queues: {a: {capacity: 50, maximum_capacity: 50}, b: {capacity: 50}}
workload:
  jobs:
    - {queue: a, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}
    - {queue: %s, name: big, stages: [{tasks: 1, duration_s: 5, demand: {memory-mb: %s, vcores: 1}}]}
"""


def written(folder: Path, queue: str, memory_mb: int) -> Path:
    file = folder / "scenario.yaml"
    file.write_text(SMALL % (queue, memory_mb))
    return file


@pytest.mark.parametrize(
    ("queue", "memory_mb", "told"),
    [
        ("b", 4097, "a task asks for memory-mb 4097, vcores 1; no node has that, the most of each are memory-mb 4096"),
        ("a", 4097, "no node has that"),
    ],
)
def test_an_ask_that_fits_nowhere_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], queue: str, memory_mb: int, told: str
) -> None:
    file, out = written(tmp_path, queue, memory_mb), tmp_path / "out.json"
    assert run(["simulate", str(file), f"--json={out}"]) == 2
    said = capsys.readouterr().err
    assert "1 job of 2 can never run" in said
    assert f"big (queue {queue}): " in said
    assert told in said
    assert run(["simulate", str(file), f"--json={out}", "--allow-impossible"]) == 0
    (found,) = json.loads(out.read_text())["runs"]
    assert (found["unfinished"], found["ended"]) == (1, "stalled")


def test_an_ask_beyond_its_queues_maximum_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text((SMALL % ("a", 3000)).replace("maximum_capacity: 50", "maximum_capacity: 30"))
    assert run(["simulate", str(file)]) == 2
    assert "the queue may have at most memory-mb 2457" in capsys.readouterr().err


def test_jobs_that_a_policy_never_serves_are_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "b", 1024)
    (tmp_path / "shut.py").write_text(
        "import numpy as np\n\nclass Shut:\n"
        "    def allows(self, view):\n        return np.zeros(len(view.requests), bool)\n"
    )
    policy = tmp_path / "shut.yaml"
    policy.write_text("policy: {gate: {kind: file, path: shut.py, class: Shut}}\n")
    assert run(["simulate", str(file), f"--policy={policy}"]) == 1
    assert "2 jobs of 2 wait for what they never get" in " ".join(capsys.readouterr().out.split())
    assert run(["simulate", str(file), f"--policy={policy}", "--allow-impossible"]) == 0


def test_a_run_that_the_limit_of_time_ends_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "b", 1024)
    file.write_text(file.read_text() + "duration_limit_s: 1\n")
    assert run(["simulate", str(file)]) == 0
    assert "2 jobs of 2 had not ended by duration_limit_s" in " ".join(capsys.readouterr().out.split())


def test_a_ready_made_policy_is_taken_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "b", 1024)
    assert run(["simulate", str(file), "--policy=hdrf"]) == 0
    assert "hdrf" in capsys.readouterr().out
    assert run(["simulate", str(file), "--policy=hdfr"]) == 2
    assert "did you mean hdrf?" in capsys.readouterr().err
    file.write_text(file.read_text() + "policies: [srpt]\n")
    assert run(["simulate", str(file)]) == 0
    assert "srpt" in capsys.readouterr().out

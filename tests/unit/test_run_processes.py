"""Processes that run simulations: Ctrl-C ends them in silence, and one that dies loses no task but its own."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import psutil
import pytest
from tests.support.ctrl_c import command_of, interrupted
from tests.support.mortal import Mortal, live_or_die
from tests.support.waiting import eventually

from treadle.cli.main import run
from treadle.sweep.runs import run_locally

SCENARIO = """
cluster: {nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}}
workload: {own: {file: own.py}}
"""

WAITS = """
import time
from pathlib import Path

def jobs(seed):
    (Path(__file__).parent / f"ran-{seed}").touch()
    time.sleep(3600)
"""

DIES = "import os, signal\ndef jobs(seed): os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    (tmp_path / "own.py").write_text(WAITS)
    return file


def started(pid: int) -> bool:
    """Say whether a process that runs simulations is on its way: it loads what it needs, for some seconds."""
    try:
        workers = [each for each in psutil.Process(pid).children() if "spawn_main" in " ".join(each.cmdline())]
        return len(workers) == 2 and all(sum(each.cpu_times()[:2]) > 0.1 for each in workers)
    except psutil.Error:
        return False


@pytest.mark.parametrize("when", ["they start", "they run"])
def test_ctrl_c_ends_simulations_in_other_processes_without_a_trace(scenario: Path, when: str) -> None:
    words = ("simulate", str(scenario), "--policy=fifo", "--seeds=3", "--jobs=2", "--trust-code")
    ran = [scenario.parent / "ran-1", scenario.parent / "ran-2"]
    code, said = interrupted(
        command_of(*words), started if when == "they start" else lambda pid: all(each.exists() for each in ran)
    )
    assert "Traceback" not in said, said
    assert code == 130, said
    assert "stopped; 0 of 3 runs had ended, nothing was written" in " ".join(said.split())


def test_a_simulation_whose_process_dies_says_what_to_do(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (scenario.parent / "own.py").write_text(DIES)
    assert run(["simulate", str(scenario), "--policy=fifo", "--seeds=2", "--jobs=2", "--trust-code"]) == 2
    assert "ran out of memory" in capsys.readouterr().err


def test_a_task_that_would_have_been_next_when_a_process_died_is_run(tmp_path: Path) -> None:
    now = tmp_path / "now"
    tasks = [Mortal("first"), Mortal("dies", str(now)), Mortal("third"), Mortal("fourth")]
    before = set(multiprocessing.active_children())
    running = run_locally(tasks, live_or_die, 2)
    done = [next(running)]
    now.touch()
    eventually(lambda: not set(multiprocessing.active_children()) - before)  # until it is known that one has died
    done += running
    assert {each.number: each.failed for each in done} == {0: False, 1: True, 2: False, 3: False}

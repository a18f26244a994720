"""Watching a simulation: one that ends well, one that ends by itself, one in which nothing happens."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from treadle_lab.minicluster.cluster import wait_for
from treadle_lab.sls.run import MODES, Run, Setting, Workload, simulate

SEEN: dict[str, Any] = {
    "state": "running",
    "nodes": 4,
    "attempts_ended": 1,
    "commits": {"total": 7},
    "completions": {"total": 5},
    "sample_columns": ["running", "pending", "apps_running", "apps_pending", "reserved", "stale_nodes"],
    "samples": [[2, 30, 1, 6, 0, 3]],
    "shim": {"LeaseHeld": 0, "Rejected": 9, "LastError": "the sidecar has no Python"},
}


def run_with(
    tmp_path: Path, script: str, mode: str = "treadle", stall_s: float = 30.0
) -> tuple[Run, list[dict[str, Any]]]:
    """Run a Python script in the place of java; it finds itself in the run's folder."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{sys.executable}\nimport json, os, pathlib, sys, time\n{script}\n")
    java.chmod(0o755)
    workload = Workload(nodes=5, jobs=2, tasks=10, task_ms=1_000)
    setting = Setting(workload, [], 256, stall_s)
    shown: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(tmp_path))
        return simulate(MODES[mode], setting, tmp_path / "run", shown.append), shown


def write_measurements(**changes: Any) -> str:
    """Return a line of Python that writes measurements as the JVM does."""
    return f"pathlib.Path('measurements.json').write_text({json.dumps({**SEEN, **changes})!r})"


WRITE_PID = "pathlib.Path('pid').write_text(str(os.getpid()))"
WAIT_FOR_EVER = "while True:\n    time.sleep(60)"


def test_a_finished_simulation_is_ended(tmp_path: Path) -> None:
    script = "\n".join([WRITE_PID, write_measurements(state="finished"), WAIT_FOR_EVER])
    run, shown = run_with(tmp_path, script)
    assert run.failure is None
    assert run.measurements["commits"]["total"] == 7
    assert shown[-1]["state"] == "finished"
    pid_file = tmp_path / "run" / "pid"
    assert not psutil.pid_exists(int(pid_file.read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_simulation_too(tmp_path: Path, number: signal.Signals) -> None:
    pid_file = tmp_path / "run" / "pid"

    def send() -> None:
        wait_for("the simulation", lambda: pid_file.is_file() and pid_file.read_text() != "", 60, 0.05)
        os.kill(os.getpid(), number)

    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGINT, signal.SIGHUP)}
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_with(tmp_path, f"{WRITE_PID}\n{WAIT_FOR_EVER}")
    finally:
        sender.join()
        for each, handler in before.items():
            signal.signal(each, handler)
    assert not psutil.pid_exists(int(pid_file.read_text()))


def test_a_simulation_that_ends_by_itself_says_why(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path, "print('java.lang.OutOfMemoryError: Java heap space', flush=True)\nsys.exit(3)")
    assert run.failure is not None
    assert "ended by itself with code 3" in run.failure
    assert "OutOfMemoryError" in run.failure
    assert "never got as far as a scheduler" in run.failure
    assert str(tmp_path / "run") in run.failure


def test_a_simulation_in_which_nothing_happens_is_given_up_and_described(tmp_path: Path) -> None:
    script = f"import signal\nsignal.signal(signal.SIGQUIT, signal.SIG_IGN)\n{write_measurements()}\n{WAIT_FOR_EVER}"
    run, _ = run_with(tmp_path, script, stall_s=0.5)
    assert run.failure is not None
    for part in (
        "nothing has happened for 0 s",
        "4 of 5 nodes registered",
        "names do not resolve",
        "lease held: 0, rejected: 9",
        "the sidecar has no Python",
        "2 containers running, 30 asked for, 1 applications running, 6 waiting, 0 reservations, 3 nodes silent",
        "1 of 2 jobs ended",
    ):
        assert part in run.failure, run.failure


def test_an_engine_without_the_lease_is_named(tmp_path: Path) -> None:
    measurements = write_measurements(state="waiting", nodes=5)
    run, _ = run_with(tmp_path, f"{measurements}\nsys.exit(1)")
    assert run.failure is not None
    assert "the engine never held the lease" in run.failure


def test_what_the_run_leaves_is_a_complete_configuration(tmp_path: Path) -> None:
    run_with(tmp_path, "sys.exit(0)")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"yarn-site.xml", "sls-runner.xml", "capacity-scheduler.xml", "log4j.properties", "hosts"} <= names

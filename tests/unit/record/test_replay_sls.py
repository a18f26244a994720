"""`treadle bench replay --sls`: its load, what runs again and what does not, and its figures from recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.make_recordings import POLICIES, record

from treadle.cli.main import run
from treadle.lab.bench import replay_sls
from treadle.lab.bench.replay_sls import ROLES, Recorded, UnequalLoad, figures_of, load_of
from treadle.lab.bench.sls import Run
from treadle.lab.bench.sls_load import BenchError, Mode

JOBS = 8
SRPT = "policy: {order: {kind: srpt}, estimate: {kind: observed}}"


def test_every_other_workload_has_reduces_and_all_have_unequal_tasks() -> None:
    for number in range(4):
        trace = load_of(number, JOBS).trace()
        for part in trace["workloads"]:
            (job,) = part["job_classes"]
            assert [task["type"] for task in job["tasks"]] == ["map", "reduce"][: 1 + number % 2]
            assert all("std" in task["time"] and len(task["count"]["discrete"]) > 1 for task in job["tasks"])
    assert load_of(0, JOBS).settings != load_of(1, JOBS).settings, "jobs come at other times"


def test_figures_come_from_the_three_recordings(tmp_path: Path) -> None:
    for role, policy in zip(ROLES, (POLICIES["default"], SRPT, POLICIES["default"]), strict=True):
        record(tmp_path / role, policy)
    folders = {role: tmp_path / role for role in ROLES}
    found = figures_of(Recorded(0, "capacity", "srpt", folders), JOBS)
    assert (found.again.makespan, found.again.completion_mean) == (0.0, 0.0), "the simulator has no chance of its own"
    assert found.after_s is not None
    assert found.after_s > 0
    assert found.effect.makespan != 0
    for error in (found.own, found.error):
        assert abs(error.makespan) < 0.1
        assert abs(error.completion_mean) < 0.05
    with pytest.raises(BenchError, match=r"8 of 9 jobs came and ended in it; remove its folder"):
        figures_of(Recorded(0, "capacity", "srpt", folders), 9)


def test_what_has_run_does_not_run_again_and_a_failure_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[Mode] = []
    fails = [True]

    def simulate(mode: Mode, setting: Any, folder: Path, progress: Any) -> Run:
        modes.append(mode)
        return Run(mode, failure="it broke" if fails[0] and mode.name == "B srpt" else None)

    monkeypatch.setattr(replay_sls, "simulate", simulate)
    setting: Any = lambda load: load  # noqa: E731
    with pytest.raises(BenchError, match="workload 1, B: it broke"):
        replay_sls.record(0, "capacity", "srpt", JOBS, setting, tmp_path)
    assert sorted(mode.name for mode in modes) == ["A capacity", "A-again capacity", "B srpt"]
    modes.clear()
    fails[0] = False
    found = replay_sls.record(0, "capacity", "srpt", JOBS, setting, tmp_path)
    (again,) = modes
    assert again.name == "B srpt"
    written = yaml.safe_load(Path(again.yarn_settings["yarn.scheduler.treadle.config.file"]).read_text())
    assert (written["record"]["folder"], written["policy"]["order"]) == (str(found.folders["B"]), {"kind": "srpt"})
    assert isinstance(load_of(0, JOBS), UnequalLoad)


def test_keep_is_for_sls(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "replay", "--keep", "there"]) == 2
    assert "--keep goes with --sls" in capsys.readouterr().err

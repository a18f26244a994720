"""Python code that scenarios and sweeps name runs with --trust-code alone, in every command that reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import run
from treadle.config.errors import ConfigError
from treadle.simulate import Scenario

DATA = Path(__file__).parents[1] / "data" / "histories"

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from treadle.dag.dag import Dag, Stage
from treadle.simulate import Job


def make(*given, **named):
    return [Job("j", 0, Dag("d", (Stage(0, 2, 1000, {{"memory-mb": 1024}}),)), queue="a")]


class Part:
    def keys(self, view):
        return [0.0] * len(view.applications)
"""
PART = {"order": {"kind": "file", "path": "evil.py", "class": "Part"}}
CLUSTER: dict[str, Any] = {
    "cluster": {"nodes": [{"count": 2, "resources": {"memory-mb": 4096, "vcores": 4}}]},
    "queues": {"a": {}},
}
JOBS = {"jobs": [{"stages": [{"tasks": 2, "duration_s": 1, "demand": {"memory-mb": 1024, "vcores": 1}}], "queue": "a"}]}
SCENARIOS: Mapping[str, tuple[dict[str, Any], str]] = {
    "own": ({"workload": {"own": {"file": "evil.py", "function": "make"}}}, "workload.own.file"),
    "format": ({"workload": {"file": "x.json", "format": "evil.py:make"}}, "workload.format"),
    "policies": ({"workload": JOBS, "policies": ["evil.yaml"]}, "policy.order.path"),
    "engines": (
        {"workload": JOBS, "engines": {"one": {"select": {"queues": ["root.a"]}, "policy": PART}, "rest": {}}},
        "engines.one.policy.order.path",
    ),
}
"""By what they name: the rest of a scenario, and the field that an error has."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evil.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    (tmp_path / "evil.yaml").write_text(json.dumps({"policy": PART}))
    (tmp_path / "x.json").write_text("{}")
    return tmp_path


def scenario(folder: Path, kind: str) -> Path:
    file = folder / "scenario.yaml"
    file.write_text(json.dumps(CLUSTER | SCENARIOS[kind][0], indent=1))
    return file


def simulate(folder: Path, kind: str) -> list[str]:
    return ["simulate", str(scenario(folder, kind))]


def sweep(folder: Path, kind: str) -> list[str]:
    scenario(folder, kind)
    policy = "evil.yaml" if kind == "policies" else "fifo"
    document = {"scenarios": ["scenario.yaml"], "policies": [policy], "seeds": 1}
    (folder / "sweep.yaml").write_text(json.dumps(document))
    return ["sweep", str(folder / "sweep.yaml"), "--jobs=1"]


def sweep_by_settings(folder: Path, kind: str) -> list[str]:
    """Return a command that sweeps a plain scenario and a plain policy, of which settings of the sweep make others."""
    (folder / "scenario.yaml").write_text(json.dumps(CLUSTER | {"workload": JOBS}))
    more, _ = SCENARIOS[kind]
    of_policy = {"policy.order": [PART["order"]]} if kind == "policies" else {}
    of_scenario = {} if kind == "policies" else {name: [value] for name, value in more.items()}
    (folder / "plain.yaml").write_text("seed: 1\n")
    document = {
        "scenarios": [{"scenario": "scenario.yaml", "set": of_scenario}],
        "policies": [{"policy": "plain.yaml", "set": of_policy}],
        "seeds": 1,
    }
    (folder / "sweep.yaml").write_text(json.dumps(document))
    return ["sweep", str(folder / "sweep.yaml"), "--jobs=1"]


def check(folder: Path, kind: str) -> list[str]:
    (folder / "plain.yaml").write_text("seed: 1\n")
    return ["policy", "check", str(folder / "plain.yaml"), "--scenario", str(scenario(folder, kind))]


def replay(folder: Path, kind: str) -> list[str]:
    history = next(DATA.glob("*.jhist"))
    shutil.copy(history, folder)
    words = ["replay", "--history", str(folder / history.name), "--cluster", str(scenario(folder, kind))]
    return [*words, "--policy", "fifo", "--seeds=1"]


ALL = [
    (command, kind)
    for command in (simulate, sweep, sweep_by_settings, check, replay)
    for kind in SCENARIOS
    if kind != "policies" or command in (simulate, sweep, sweep_by_settings)  # others do not look at `policies`
]


@pytest.mark.parametrize(("command", "kind"), ALL, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_no_command_runs_code_that_a_file_names(
    command: Callable[[Path, str], list[str]], kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command(folder, kind)
    assert run(words) == 2
    said = capsys.readouterr().err
    assert not (folder / "mark").exists()
    assert f"{SCENARIOS[kind][1]}: " in said
    assert "evil.py" in said
    assert "is Python code, which runs only with --trust-code" in said
    run([*words, "--trust-code"])
    assert "is Python code" not in capsys.readouterr().err
    ran = (folder / "mark").exists()
    assert ran or command is check or (command is replay and kind != "engines"), "these have no use for a workload"


def test_an_error_names_file_and_line(folder: Path) -> None:
    file = scenario(folder, "own")
    line = 1 + file.read_text().splitlines().index('   "file": "evil.py",')
    with pytest.raises(ConfigError, match=f"^{file}:{line}: workload.own.file: 'evil.py' is Python code"):
        Scenario.read(file)


def test_a_policy_that_the_command_line_names_goes_by_owner_and_mode(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "plain-scenario.yaml"
    file.write_text(json.dumps(CLUSTER | {"workload": JOBS}))
    words = ["simulate", str(file), "--policy", str(folder / "evil.yaml")]
    (folder / "evil.py").chmod(0o666)
    assert run(words) == 2
    assert "may be written by everybody" in capsys.readouterr().err
    assert not (folder / "mark").exists()
    (folder / "evil.py").chmod(0o644)
    assert run(words) == 0
    assert (folder / "mark").exists()


def test_what_others_may_write_makes_no_jobs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "evil.py").chmod(0o666)
    for kind in ("own", "format"):
        assert run([*simulate(folder, kind), "--trust-code"]) == 2
        assert "evil.py may be written by everybody" in capsys.readouterr().err
    assert not (folder / "mark").exists()

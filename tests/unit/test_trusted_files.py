"""Code of a user's and the file that names it are only run where nobody else may change them."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.files import written

from treadle.admin import policy_use
from treadle.cli.main import run
from treadle.config import trust
from treadle.config.reader import read_settings
from treadle.config.text import History
from treadle.config.trust import reason_against
from treadle.errors import ConfigError, UserError
from treadle.files import own_folder, write_whole
from treadle.live.policies import LivePolicies
from treadle.live.policy_memory import PolicyMemory
from treadle.policy.catalogue import register_parts
from treadle.simulate import Scenario

register_parts()

PART = 'from pathlib import Path\nPath(__file__).with_name("ran").touch()\nclass O:\n  def keys(self, view): return 0\n'
NOBODY = 65534


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "etc" / "conf"
    folder.mkdir(parents=True)
    (folder / "part.py").write_text(PART)
    (folder / "treadle.yaml").write_text("policy: {order: {kind: file, path: part.py, class: O}}\n")
    for path in (folder, folder.parent, *folder.iterdir()):
        path.chmod(0o755)
    return folder


def refusal(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_settings(file)
    assert not (file.parent / "ran").exists(), "no code was run"
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
@pytest.mark.parametrize("name", ["part.py", "treadle.yaml", ".", ".."])
def test_what_others_may_write_is_not_run(conf: Path, name: str, mode: int) -> None:
    assert read_settings(conf / "treadle.yaml").policy.order.label == "part.py:O"
    (conf / "ran").unlink()
    changed = (conf / name).resolve()
    changed.chmod(mode | (0o111 if changed.is_dir() else 0))
    said = refusal(conf / "treadle.yaml")
    assert f"{changed} may be written by {'everybody' if mode & 2 else 'its group'}" in said
    assert f"chmod go-w {changed}" in said
    assert "treadle.yaml:1: policy.order" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["part.py", "treadle.yaml", ".", ".."])
def test_what_belongs_to_somebody_else_is_not_run(conf: Path, name: str) -> None:
    changed = (conf / name).resolve()
    os.chown(changed, NOBODY, NOBODY)
    assert f"{changed} belongs to" in refusal(conf / "treadle.yaml")


def test_a_sticky_folder_is_no_danger_to_what_is_in_it(conf: Path) -> None:
    conf.parent.chmod(0o1777)
    assert reason_against(conf / "part.py") == ""
    conf.chmod(0o777)
    assert reason_against(conf / "part.py").startswith(f"{conf} may be written by everybody")


def test_links_are_followed_step_by_step(conf: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "middle").symlink_to(conf)
    (tmp_path / "direct").symlink_to(conf)
    (tmp_path / "relative").symlink_to("etc/../etc/conf/part.py")
    (tmp_path / "around").symlink_to(tmp_path / "open" / "middle")
    assert reason_against(tmp_path / "direct" / "part.py") == ""
    assert reason_against(tmp_path / "relative") == ""
    assert f"{tmp_path / 'open'} may be written" in reason_against(tmp_path / "around" / "part.py")
    assert f"{tmp_path / 'open'} may be written" in reason_against(tmp_path / "open" / ".." / "direct" / "part.py")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many"):
        reason_against(tmp_path / "loop")
    with pytest.raises(FileNotFoundError):
        reason_against(tmp_path / "absent")


def test_the_owner_of_the_process_is_trusted(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert trust.trusted_owners() == {0, NOBODY}
    me = (conf / "part.py").stat().st_uid
    assert bool(reason_against(conf / "part.py")) == (me != 0)
    assert reason_against(conf / "part.py", {0, me}) == ""


def test_a_sidecar_refuses_a_treadle_yaml_that_others_may_write_though_it_names_no_code(conf: Path) -> None:
    config = written(conf / "treadle.yaml", "policy: {share: {kind: none}}\n")
    config.chmod(0o666)
    policies = LivePolicies(config, PolicyMemory(None))
    for read in (policies.start, policies.read):
        with pytest.raises(ConfigError, match="may be written by everybody"):
            read()
    config.chmod(0o644)
    assert policies.start().policy.share.kind.name == "none"


def test_what_others_could_have_remembered_is_not_believed(tmp_path: Path) -> None:
    folder = tmp_path / ".treadle.yaml.state"
    first = PolicyMemory(folder)
    first.remember_bad("digest", "it failed")
    assert PolicyMemory(folder).reason_against("digest") == "it failed"
    (folder / "policies.json").chmod(0o666)
    assert PolicyMemory(folder).reason_against("digest") == ""
    (folder / "policies.json").chmod(0o600)
    folder.chmod(0o770)
    other = PolicyMemory(folder)
    assert other.reason_against("digest") == ""
    other.remember_bad("other", "failed too")
    assert "other" not in json.loads((folder / "policies.json").read_text())["bad"], "nor is it written to"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What a ResourceManager, or whoever answers in its place, says of where its treadle.yaml is."""
    said: list[Path] = []
    monkeypatch.setattr(policy_use, "configured_file", lambda *_: said[0])
    return said


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("passwd", "root:x:0:0:root:/root:/bin/bash\n", "is not a treadle.yaml"),
        ("cron.yaml", "jobs: []\n", "is not a treadle.yaml"),
        ("empty.yaml", "", "is not a treadle.yaml"),
        ("absent.yaml", None, "is not there"),
        ("treadle.yaml", "seed: 1\n", ""),
    ],
)
def test_use_writes_only_over_a_treadle_yaml_where_the_resource_manager_names_the_file(
    tmp_path: Path,
    named: list[Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str | None,
    said: str,
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    named.append(file)
    code = run(["policy", "use", "hdrf", "--no-refresh"])
    assert code == (2 if said else 0)
    if said:
        error = capsys.readouterr().err
        assert said in error
        assert "--config" in error
        assert (file.read_text() if file.exists() else None) == content
        assert [path.name for path in tmp_path.iterdir()] == ([name] if content is not None else [])


@pytest.mark.parametrize("command", ["use hdrf", "rollback"])
def test_use_writes_nowhere_where_others_may_write_too(conf: Path, cli: Cli, command: str) -> None:
    target = written(conf / "treadle.yaml", "seed: 1\n")
    assert run(["policy", "use", "fifo", "--config", str(target), "--no-refresh"]) == 0
    now = target.read_text()
    conf.chmod(0o777)
    error = cli(["policy", *command.split(), "--config", str(target), "--no-refresh"], 2).err
    assert f"{conf} may be written by everybody" in error
    assert target.read_text() == now


def test_what_a_file_was_is_kept_nowhere_where_a_link_leads(conf: Path, tmp_path: Path) -> None:
    """Root gives the folder to the owner of the treadle.yaml, who may have put a link there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o750)
    target = written(conf / "treadle.yaml", "seed: 1\n")
    History(target).folder.symlink_to(elsewhere)
    with pytest.raises(UserError, match="a link or a file is in a folder's place"):
        History(target).keep("2026-01-01T00:00:00Z", "fair", "use", "seed: 1\n", target.stat())
    assert list(elsewhere.iterdir()) == []
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o750


def test_a_folder_that_is_swapped_meanwhile_gets_nothing(tmp_path: Path) -> None:
    owner = (os.geteuid(), os.getegid())
    folder, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with own_folder(folder, owner) as there:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(elsewhere)
        write_whole(there / "a", "text")
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "moved" / "a").read_text() == "text"


def test_a_kept_version_that_is_no_regular_file_is_left_out(conf: Path) -> None:
    target = written(conf / "treadle.yaml", "seed: 1\n")
    history = History(target)
    history.keep("2026-01-01T00:00:00Z", "fair", "use", "seed: 1\n", target.stat())
    os.mkfifo(history.folder / "000002.json")
    found: list[list[int]] = []
    reader = Thread(target=lambda: found.append([each.number for each in history.versions()]), daemon=True)
    reader.start()
    reader.join(60)
    assert found == [[1]]


# Python code that scenarios and sweeps name runs with --trust-code alone, in every command that reads them.

DATA = Path(__file__).parents[1] / "data" / "histories"

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from treadle.dag import Dag, Stage
from treadle.simulate import Job


def make(*given, **named):
    return [Job("j", 0, Dag("d", (Stage(0, 2, 1000, {{"memory-mb": 1024}}),)), queue="a")]


class Part:
    def keys(self, view):
        return [0.0] * len(view.applications)
"""
EVIL = {"order": {"kind": "file", "path": "evil.py", "class": "Part"}}
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
        {"workload": JOBS, "engines": {"one": {"select": {"queues": ["root.a"]}, "policy": EVIL}, "rest": {}}},
        "engines.one.policy.order.path",
    ),
}
"""By what they name: the rest of a scenario, and the field that an error has."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evil.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    (tmp_path / "evil.yaml").write_text(json.dumps({"policy": EVIL}))
    (tmp_path / "x.json").write_text("{}")
    return tmp_path


def scenario(folder: Path, kind: str) -> Path:
    return written(folder / "scenario.yaml", json.dumps(CLUSTER | SCENARIOS[kind][0], indent=1))


def simulate(folder: Path, kind: str) -> list[str]:
    return ["simulate", str(scenario(folder, kind))]


def sweep(folder: Path, kind: str) -> list[str]:
    scenario(folder, kind)
    policy = "evil.yaml" if kind == "policies" else "fifo"
    document = {"scenarios": ["scenario.yaml"], "policies": [policy], "seeds": 1}
    (folder / "sweep.yaml").write_text(json.dumps(document))
    return ["sweep", str(folder / "sweep.yaml"), "--processes=1"]


def sweep_by_settings(folder: Path, kind: str) -> list[str]:
    """Return a command that sweeps a plain scenario and a plain policy, of which settings of the sweep make others."""
    (folder / "scenario.yaml").write_text(json.dumps(CLUSTER | {"workload": JOBS}))
    more, _ = SCENARIOS[kind]
    of_policy = {"policy.order": [EVIL["order"]]} if kind == "policies" else {}
    of_scenario = {} if kind == "policies" else {name: [value] for name, value in more.items()}
    (folder / "plain.yaml").write_text("seed: 1\n")
    document = {
        "scenarios": [{"scenario": "scenario.yaml", "set": of_scenario}],
        "policies": [{"policy": "plain.yaml", "set": of_policy}],
        "seeds": 1,
    }
    (folder / "sweep.yaml").write_text(json.dumps(document))
    return ["sweep", str(folder / "sweep.yaml"), "--processes=1"]


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


def test_a_policy_that_the_command_line_names_goes_by_owner_and_mode(folder: Path, cli: Cli) -> None:
    file = written(folder / "plain-scenario.yaml", json.dumps(CLUSTER | {"workload": JOBS}))
    words = ["simulate", str(file), "--policy", str(folder / "evil.yaml")]
    (folder / "evil.py").chmod(0o666)
    assert "may be written by everybody" in cli(words, 2).err
    assert not (folder / "mark").exists()
    (folder / "evil.py").chmod(0o644)
    assert run(words) == 0
    assert (folder / "mark").exists()


def test_what_others_may_write_makes_no_jobs(folder: Path, cli: Cli) -> None:
    (folder / "evil.py").chmod(0o666)
    for kind in ("own", "format"):
        assert "evil.py may be written by everybody" in cli([*simulate(folder, kind), "--trust-code"], 2).err
    assert not (folder / "mark").exists()

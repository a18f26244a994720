"""`treadle doctor` never calls well what it could not read, and looks at the jar that the ResourceManager loads."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tests.support.doctor import findings, write_site

from treadle import __version__
from treadle.admin.doctor import class_path, hadoop, managers
from treadle.admin.doctor.checks import Facts
from treadle.admin.host.env_script import with_jar
from treadle.admin.host.plan import CLASS, CLASS_KEY
from treadle.cli.main import run
from treadle.errors import UserError

SHIM = Path(__file__).parents[2] / "java-shim/shim/src/main/java/io/treadle/shim/config"
KEY = "yarn.scheduler.treadle."


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir()
    write_site(folder, {CLASS_KEY: CLASS})
    return folder


def broken(conf: Path, name: str) -> str:
    """Break a file of settings; return the finding about it."""
    (conf / name).write_text("<configuration>")
    return f"{conf / name}:1: no element found; put the XML right first"


def test_broken_settings_of_queues_are_reported_by_each_check_that_needs_them(conf: Path) -> None:
    said = broken(conf, "capacity-scheduler.xml")
    results = findings(Facts(conf), "settings")
    assert ("fail", said) in [each[:2] for each in results]
    assert "put that file right" in next(each[2] for each in results if each[1] == said)
    results = findings(Facts(conf), "features")
    assert [each[0] for each in results] == ["skipped"]
    assert said in results[0][1]


@pytest.mark.parametrize("check", ["features", "owners", "connection", "modes", "reach"])
def test_nothing_is_called_well_by_settings_that_could_not_be_read(check: str, conf: Path) -> None:
    said = broken(conf, "yarn-site.xml")
    results = findings(Facts(conf), check)
    assert "ok" not in {each[0] for each in results}
    assert any(each[0] == "skipped" and said in each[1] for each in results)


def test_a_circle_of_links_is_reported(conf: Path) -> None:
    (conf / "yarn-site.xml").unlink()
    (conf / "yarn-site.xml").symlink_to("yarn-site.xml")
    assert findings(Facts(conf), "settings")[0][0] == "fail"
    assert "yarn-site.xml" in findings(Facts(conf), "settings")[0][1]


@pytest.mark.parametrize("text", ["policy: [", None])
def test_a_treadle_yaml_that_cannot_be_read_keeps_features_from_being_called_well(
    text: str | None, conf: Path, tmp_path: Path
) -> None:
    yaml = tmp_path / "treadle.yaml"
    if text is not None:
        yaml.write_text(text)
    write_site(conf, {CLASS_KEY: CLASS, f"{KEY}config.file": str(yaml)})
    results = findings(Facts(conf), "features")
    assert [each[0] for each in results] == ["skipped"]
    assert str(yaml) in results[0][1]


def test_a_file_that_a_check_may_not_read_is_named(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: object) -> None:
        raise PermissionError(13, "Permission denied", "/etc/secret")

    monkeypatch.setattr("psutil.virtual_memory", lambda: closed(None))
    status, text, remedy = findings(Facts(conf), "memory")[0]
    assert (status, text) == ("fail", "/etc/secret: Permission denied")
    assert "run it as root" in remedy


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("lease-ms", "abc", "'abc'; allowed are whole numbers from 100 to 600000"),
        ("lease-ms", "99", "whole numbers from 100"),
        ("lease-ms", "1_000", "whole numbers from 100"),
        ("tick-ms", "501", "whole numbers from 1 to 500 (a quarter of lease-ms)"),
        ("batch.size", "0", "from 1 to 4096"),
        ("sidecar", "extern", "set it to one of managed, external"),
        ("mode", "Enforce", "set it to one of off, observe_only, enforce"),
        ("sidecar.user", "treadle", "runs as the ResourceManager's user"),
    ],
)
def test_values_that_the_shim_refuses_fail(key: str, value: str, said: str, conf: Path) -> None:
    write_site(conf, {CLASS_KEY: CLASS, f"{KEY}{key}": value})
    failed = [each for each in findings(Facts(conf), "settings") if each[0] == "fail"]
    assert len(failed) == 1
    assert f"{KEY}{key}" in failed[0][1]
    assert said in failed[0][1] + failed[0][2]


def test_values_that_the_shim_takes_are_well(conf: Path) -> None:
    write_site(conf, {CLASS_KEY: CLASS, f"{KEY}lease-ms": " 400 ", f"{KEY}tick-ms": "+100", f"{KEY}batch.size": ""})
    assert [each[0] for each in findings(Facts(conf), "settings")] == ["ok"]


def test_bounds_of_numbers_are_those_of_the_shim() -> None:
    source = "\n".join((SHIM / f"{name}.java").read_text() for name in ("ShimConfig", "SidecarSettings"))
    keys = dict(re.findall(r'String (\w+) = PREFIX \+ "([^"]+)"', source))
    units = {"KIB": "1024", "MIB": "1048576"}
    read = {}
    for name, least, most in re.findall(
        r"settings\.number\((?:ShimConfig\.)?(\w+), .+?, ([\w *]+), ([\w *]+)\)", source
    ):
        numbers = [re.sub("KIB|MIB", lambda unit: units[unit[0]], each).replace("_", "") for each in (least, most)]
        read[keys[name]] = tuple(eval(each) for each in numbers)
    assert read == hadoop.NUMBERS


def jar_of(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("META-INF/maven/io.treadle/treadle-shim/pom.properties", f"version={version}\n")
    return path


class Process:
    """A ResourceManager as psutil shows it."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self._words, self._environment = words, environment

    def cmdline(self) -> list[str]:
        return self._words

    def environ(self) -> dict[str, str]:
        return self._environment


@pytest.fixture
def ours(tmp_path: Path, conf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jar of this release, on the class path by yarn-env.sh; nothing runs."""
    path = jar_of(tmp_path / "opt" / "lib" / "treadle-shim.jar", __version__)
    monkeypatch.setattr(class_path, "shim_jar", lambda: path)
    monkeypatch.setattr(class_path, "resource_managers", list)
    for name in ("HADOOP_HOME", "HADOOP_YARN_HOME"):
        monkeypatch.delenv(name, raising=False)
    (conf / "yarn-env.sh").write_bytes(with_jar(b"export A=1\n", path))
    return path


def test_the_jar_of_this_release_is_well(conf: Path, ours: Path) -> None:
    assert findings(Facts(conf), "jar") == [("ok", f"{ours} of release {__version__}, by {conf}/yarn-env.sh", "")]
    (conf / "yarn-env.sh").write_text("")
    assert findings(Facts(conf), "jar")[0][::2] == ("warn", "treadle install")


def test_a_jar_that_is_gone_or_of_another_release_or_none_fails(conf: Path, ours: Path, tmp_path: Path) -> None:
    other = jar_of(tmp_path / "other" / "treadle-shim.jar", "0.0.9")
    (conf / "yarn-env.sh").write_bytes(with_jar(b"", other))
    status, text, _ = findings(Facts(conf), "jar")[0]
    assert status == "fail"
    assert f"{other}, by {conf}/yarn-env.sh, is of release 0.0.9, and this command of {__version__}" in text
    other.write_text("no archive")
    assert findings(Facts(conf), "jar")[0][0] == "fail"
    other.unlink()
    status, text, _ = findings(Facts(conf), "jar")[0]
    assert status == "fail"
    assert "is not there" in text


def test_a_script_that_cannot_be_read_is_reported(conf: Path, ours: Path) -> None:
    (conf / "yarn-env.sh").unlink()
    (conf / "yarn-env.sh").mkdir()
    status, text, _ = findings(Facts(conf), "jar")[0]
    assert status == "fail"
    assert f"{conf}/yarn-env.sh: Is a directory" in text


def test_a_running_manager_has_its_jar_by_words_or_environment(
    conf: Path, ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = jar_of(tmp_path / "old" / "treadle-shim-0.0.9.jar", "0.0.9")
    for words, environment in (
        (["java", "-cp", f"{conf}:{old}"], {}),
        (["java"], {"CLASSPATH": f"/a:{conf}:{old.parent}/*"}),
    ):
        process = Process(words, environment)
        monkeypatch.setattr(class_path, "resource_managers", lambda found=process: [found])
        failed = [each for each in findings(Facts(conf), "jar") if each[0] == "fail"]
        assert [str(old) in each[1] and "restart" in each[2] for each in failed] == [True]
    other = Process(["java", "-cp", f"/other/conf:{old}"], {})
    monkeypatch.setattr(class_path, "resource_managers", lambda: [other])
    assert [each[0] for each in findings(Facts(conf), "jar")] == ["ok"], "that is the manager of another cluster"


def test_two_jars_are_a_warning(conf: Path, ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = jar_of(tmp_path / "hadoop/share/hadoop/yarn/lib/treadle-shim-1.jar", __version__)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path / "hadoop"))
    warned = [each for each in findings(Facts(conf), "jar") if each[0] == "warn"]
    assert [(str(beside) in text, remedy) for _, text, remedy in warned] == [(True, f"remove {beside}")]


def test_a_command_without_a_jar_is_reported(conf: Path, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise UserError("this installation carries no jar")

    monkeypatch.setattr(class_path, "shim_jar", none)
    assert findings(Facts(conf), "jar")[0][:2] == ("fail", "this installation carries no jar")


def listening(port: int, conf: Path | None = None) -> Any:
    """Return a ResourceManager's process that serves its pages at a port."""
    address = SimpleNamespace(status=psutil.CONN_LISTEN, laddr=SimpleNamespace(port=port))
    return SimpleNamespace(
        pid=port,
        cmdline=lambda: ["/other/java", "-cp", f"{conf or '/other/conf'}"],
        environ=dict,
        net_connections=lambda kind: [address],
        username=lambda: "yarn",
    )


@pytest.mark.parametrize("check", ["java", "sidecar", "jar"])
def test_the_manager_of_another_cluster_is_not_taken_for_the_one_that_is_named(
    check: str, conf: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant, other = listening(8088), listening(9099)
    other.cmdline = lambda: ["/another/java", "-cp", f"/other/conf:{ours}"]
    sidecars = [SimpleNamespace(pid=7, ppid=lambda: 9099), SimpleNamespace(pid=8, ppid=lambda: 8088)]
    for each in sidecars:
        each.username, each.memory_info = (lambda: "yarn"), (lambda: SimpleNamespace(rss=1 << 20))
    for module in (class_path, hadoop, managers):
        monkeypatch.setattr(module, "resource_managers", lambda: [meant, other])
    monkeypatch.setattr(managers, "sidecars", lambda: sidecars)
    for facts in (Facts(rms=("http://rm:8088",)), Facts(conf, rms=("http://rm:9099",))):
        said = " ".join(text for _, text, _ in findings(facts, check))
        assert "process 7" not in said
        assert "/another/java" not in said
        assert str(ours) not in said or "yarn-env.sh" in said


def test_of_the_manager_that_is_named_the_sidecar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    rm = listening(8088)
    child = SimpleNamespace(
        pid=8, ppid=lambda: 8088, username=lambda: "yarn", memory_info=lambda: SimpleNamespace(rss=1 << 20)
    )
    monkeypatch.setattr(managers, "resource_managers", lambda: [rm])
    monkeypatch.setattr(managers, "sidecars", lambda: [child])
    assert findings(Facts(rms=("rm:8088",)), "sidecar")[0][:2] == ("ok", "process 8, of yarn, 1 MiB")
    assert findings(Facts(rms=("rm:8089",)), "sidecar")[0][0] == "skipped"


@pytest.mark.parametrize("check", ["modes", "clock", "lease"])
def test_a_check_alone_fails_if_no_manager_answers(check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--only", check, "--rm", "http://127.0.0.1:9", "--json"]) == 1
    statuses = [each["status"] for each in json.loads(capsys.readouterr().out)]
    assert statuses == ["fail", "skipped"]


def test_what_keeps_managers_from_answering_is_reported_once() -> None:
    results = findings(Facts(rms=("http://127.0.0.1:9",)), "reach", "modes", "clock", "lease")
    assert [each[0] for each in results].count("fail") == 1


def test_a_yarn_without_a_class_path_is_quoted(conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yarn = tmp_path / "yarn"
    yarn.write_text("#!/bin/sh\necho there is no classpath here >&2\nexit 2\n")
    yarn.chmod(0o755)
    facts = Facts(conf, yarn=str(yarn))
    (skipped,) = hadoop._references(facts, "java", tmp_path / "none.jar")
    assert skipped.status == "skipped"
    assert f"`{yarn} classpath` fails: there is no classpath here" in skipped.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("polcy: {}\n", "treadle.yaml:1: polcy: 'polcy' is not one of"),
        ("policy: {order: {kind: file, path: no.py, class: X}}\n", "treadle.yaml:1: policy.order.path:"),
    ],
)
def test_a_wrong_treadle_yaml_fails_with_its_line(
    text: str, said: str, conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml, ran = tmp_path / "treadle.yaml", tmp_path / "ran"
    write_site(conf, {CLASS_KEY: CLASS, f"{KEY}config.file": str(yaml)})
    asked = ["doctor", "--pre", "--only", "settings", "--json", "--hadoop-conf", str(conf)]
    yaml.write_text(text)
    assert run(asked) == 1
    failed = [each for each in json.loads(capsys.readouterr().out) if each["status"] == "fail"]
    assert [said in each["text"] for each in failed] == [True]
    (tmp_path / "part.py").write_text(f"open({str(ran)!r}, 'w')\n")
    yaml.write_text("policy: {order: {kind: file, path: part.py, class: X}}\n")
    assert run(asked) == 0
    assert not ran.exists(), "who looks runs no code of somebody else's"

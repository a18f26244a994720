"""`treadle doctor` never calls well what it could not read, and looks at the jar that the ResourceManager loads."""

from __future__ import annotations

import getpass
import json
import os
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tests.support.cli import Cli
from tests.support.decoys import RESOURCE_MANAGER, decoy
from tests.support.doctor import findings, write_site
from tests.support.files import written

from treadle import __version__
from treadle.admin import doctor as managers
from treadle.admin import hadoop
from treadle.admin.hadoop import Facts
from treadle.admin.plan import CLASS, CLASS_KEY
from treadle.admin.site_files import REQUIREMENTS, with_jar
from treadle.cli.main import run
from treadle.errors import UserError

SHIM = Path(__file__).parents[2] / "java-shim/shim/src/main/java/io/treadle/shim"
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
    assert ("fail", said) in [each[:2] for each in findings(Facts(conf), "settings")]
    results = findings(Facts(conf), check)
    assert "ok" not in {each[0] for each in results}
    assert any(each[0] == "skipped" and said in each[1] for each in results)


def test_a_circle_of_links_is_reported(conf: Path) -> None:
    (conf / "yarn-site.xml").unlink()
    (conf / "yarn-site.xml").symlink_to("yarn-site.xml")
    assert findings(Facts(conf), "settings")[0][0] == "fail"
    assert "yarn-site.xml" in findings(Facts(conf), "settings")[0][1]


@pytest.mark.parametrize("text", ["policy: [", "a: &a [x]\npolicy: {share: {kind: *a}}\n", None])
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
        ("mode", "enforced", "set it to one of off, observe_only, enforce"),
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
    source = (SHIM / "ShimConfig.java").read_text()
    keys = dict(re.findall(r'String (\w+) = PREFIX \+ "([^"]+)"', source))
    units = {"KIB": "1024", "MIB": "1048576", "DAY_MS": "86400000"}
    read = {}
    for name, least, most in re.findall(r"settings\.number\((\w+), .+?, ([\w *]+), ([\w *]+)\)", source):
        numbers = [re.sub("KIB|MIB|DAY_MS", lambda unit: units[unit[0]], each) for each in (least, most)]
        read[keys[name]] = tuple(eval(each) for each in numbers)
    assert read == hadoop.NUMBERS


def jar_of(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("META-INF/maven/io.treadle/treadle-shim/pom.properties", f"version={version}\n")
    return path


@pytest.fixture
def ours(tmp_path: Path, conf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jar of this release, on the class path by yarn-env.sh."""
    path = jar_of(tmp_path / "opt" / "lib" / "treadle-shim.jar", __version__)
    monkeypatch.setattr(hadoop, "shim_jar", lambda: path)
    for name in ("HADOOP_HOME", "HADOOP_YARN_HOME"):
        monkeypatch.delenv(name, raising=False)
    (conf / "yarn-env.sh").write_bytes(with_jar(b"export A=1\n", path))
    return path


def test_the_jar_of_this_release_is_well(conf: Path, ours: Path) -> None:
    assert findings(Facts(conf), "jar") == [("ok", f"{ours} of release {__version__}, by {conf}/yarn-env.sh", "")]
    (conf / "yarn-env.sh").write_text("")
    assert findings(Facts(conf, rms=("http://127.0.0.1:9",)), "jar")[0][::2] == ("warn", "treadle install")


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


def test_the_allocator_of_requirements_needs_its_jar(conf: Path, ours: Path) -> None:
    write_site(conf, {"yarn.scheduler.app-placement-allocator.class": hadoop.ALLOCATOR})
    status, text, _ = findings(Facts(conf), "jar")[-1]
    assert status == "fail"
    assert "requirements of nodes are not kept to" in text
    ours.with_name(REQUIREMENTS).touch()
    assert [each[0] for each in findings(Facts(conf), "jar")] == ["ok"]


def test_a_script_that_cannot_be_read_is_reported(conf: Path, ours: Path) -> None:
    (conf / "yarn-env.sh").unlink()
    (conf / "yarn-env.sh").mkdir()
    status, text, _ = findings(Facts(conf), "jar")[0]
    assert status == "fail"
    assert f"{conf}/yarn-env.sh: Is a directory" in text


def test_a_jar_that_a_process_names_is_not_read(conf: Path, ours: Path, tmp_path: Path) -> None:
    planted = jar_of(tmp_path / "planted" / "treadle-shim-0.0.9.jar", "0.0.9")
    with decoy("-cp", f"{conf}:{planted}", RESOURCE_MANAGER):
        assert [each[0] for each in findings(Facts(conf), "jar")] == ["ok"]


def program(path: Path, version: str = "17.0.1", does: str = "") -> Path:
    """Write a Java that says it is one, and leaves a mark beside it when it is run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    says = f'[ "$1" = -version ] && {{ echo \'openjdk version "{version}"\' >&2; exit 0; }}'
    path.write_text(f'#!/bin/sh\n: > "{path}.ran"\n{says}\n{does}\n')
    path.chmod(0o755)
    return path


def ran(path: Path) -> bool:
    return path.with_name(f"{path.name}.ran").exists()


@pytest.fixture
def known_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of Java has a jar for Java 8, and no Java of the machine's."""
    monkeypatch.setattr(hadoop, "_class_version", lambda _: 8)
    monkeypatch.setattr(hadoop, "shim_jar", lambda: tmp_path / "treadle-shim.jar")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("known_jar")
@pytest.mark.parametrize(
    ("version", "status"), [("1.7.0_80", "fail"), ("1.8.0_402", "ok"), ("17.0.11", "ok"), ("x", "warn")]
)
def test_java_is_compared_with_the_byte_code(version: str, status: str, tmp_path: Path) -> None:
    assert findings(Facts(java_given=program(tmp_path / "java", version)), "java")[0][0] == status


@pytest.mark.usefixtures("known_jar")
@pytest.mark.parametrize(("code", "status"), [(0, "ok"), (1, "fail")])
def test_the_shims_own_look_at_hadoop_is_reported(code: int, status: str, tmp_path: Path) -> None:
    java = program(tmp_path / "java", does=f"echo verdict\nexit {code}")
    yarn = program(tmp_path / "yarn", does="echo /hadoop/lib/*")
    result = findings(Facts(java_given=java, yarn=str(yarn)), "java")[1]
    assert result[0] == status
    assert "verdict" in result[1]


@pytest.mark.usefixtures("known_jar")
def test_the_java_that_a_process_names_is_never_run(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = program(tmp_path / "planted/bin/java")
    with decoy(RESOURCE_MANAGER, str(conf), program=str(planted)):
        assert findings(Facts(conf), "java")[0][:2] == ("skipped", "no Java is found")
        own = program(tmp_path / "home/bin/java")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
        assert findings(Facts(conf), "java")[0][:2] == ("ok", "Java 17 (that of JAVA_HOME) loads byte code for Java 8")
    assert ran(own)
    assert not ran(planted)


@pytest.mark.usefixtures("known_jar")
def test_java_is_looked_for_in_the_scripts_then_the_environment_then_the_path(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = {name: tmp_path / name for name in ("yarn", "hadoop", "environment")}
    for home in homes.values():
        program(home / "bin/java")
    program(tmp_path / "path/java")

    def where() -> str:
        return findings(Facts(conf), "java")[0][1].partition("(")[2].partition(")")[0]

    assert where() == "the first in the path"
    monkeypatch.setenv("JAVA_HOME", str(homes["environment"]))
    assert where() == "that of JAVA_HOME"
    (conf / "hadoop-env.sh").write_text(f"export JAVA_HOME={homes['hadoop']}\n")
    assert where() == "that of hadoop-env.sh"
    (conf / "yarn-env.sh").write_text("# JAVA_HOME=/no\nJAVA_HOME=${OTHER}/no\nexport JAVA_HOME=/no/$VERSION\n")
    assert where() == "that of hadoop-env.sh", "what has variables in it is left out"
    (conf / "yarn-env.sh").write_text(f'export JAVA_HOME=/no\n  JAVA_HOME="{homes["yarn"]}" # ours\n')
    assert where() == "that of yarn-env.sh"


@pytest.mark.usefixtures("known_jar")
@pytest.mark.parametrize("written", ["home/bin/java", "home"])
def test_a_java_that_others_may_write_is_not_run(conf: Path, tmp_path: Path, written: str) -> None:
    own = program(tmp_path / "home/bin/java")
    (tmp_path / written).chmod(0o777)
    (conf / "yarn-env.sh").write_text(f"export JAVA_HOME={tmp_path / 'home'}\n")
    for facts in (Facts(conf), Facts(java_given=own)):
        status, text, _ = findings(facts, "java")[0]
        assert status == "fail"
        assert f"{own} is not run: {tmp_path / written} may be written by everybody" in text
        assert "--java" in text
    assert not ran(own)


@pytest.mark.usefixtures("known_jar")
def test_a_yarn_that_others_may_write_is_not_run(tmp_path: Path) -> None:
    yarn = program(tmp_path / "hadoop/bin/yarn")
    yarn.chmod(0o757)
    results = findings(Facts(java_given=program(tmp_path / "java"), yarn=str(yarn)), "java")
    assert [each[0] for each in results] == ["ok", "fail"]
    assert f"{yarn} is not run: " in results[1][1]
    assert not ran(yarn)


def test_that_the_sidecars_user_is_unknown_is_reported(tmp_path: Path) -> None:
    results = findings(Facts(prefix=tmp_path / "none"), "installation")
    assert [each[0] for each in results] == ["warn", "skipped"]
    assert "--user" in results[0][2]
    assert [each[0] for each in findings(Facts(prefix=tmp_path, user_given="yarn"), "installation")] == ["skipped"]


@pytest.mark.parametrize(("named", "status"), [({}, "fail"), ({"sidecar.user": getpass.getuser()}, "warn")])
def test_a_secret_in_a_folder_of_another_user_is_reported(
    named: dict[str, str], status: str, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    secret = written(folder / "connection.json", "{}")
    secret.chmod(0o600)
    keys = {"sidecar": "external", "sidecar.connection-file": str(secret), **named}
    write_site(conf, {f"{KEY}{key}": value for key, value in keys.items()})
    stat = Path.stat

    def of_another(path: Path, **how: bool) -> os.stat_result:
        found = stat(path, **how)
        return os.stat_result((*found[:4], 65534, *found[5:])) if path == folder else found

    facts = Facts(conf, user_given=getpass.getuser())
    assert findings(facts, "connection")[0][0] == "ok"
    monkeypatch.setattr(Path, "stat", of_another)
    result = findings(facts, "connection")[0]
    assert result[0] == status
    assert f"{folder} belongs to" in result[1]


def test_two_jars_are_a_warning(conf: Path, ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = jar_of(tmp_path / "hadoop/share/hadoop/yarn/lib/treadle-shim-1.jar", __version__)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path / "hadoop"))
    warned = [each for each in findings(Facts(conf), "jar") if each[0] == "warn"]
    assert [(str(beside) in text, remedy) for _, text, remedy in warned] == [(True, f"remove {beside}")]


def test_a_command_without_a_jar_is_reported(conf: Path, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise UserError("this installation carries no jar")

    monkeypatch.setattr(hadoop, "shim_jar", none)
    assert findings(Facts(conf), "jar")[0][:2] == ("fail", "this installation carries no jar")


def manager(port: int) -> Any:
    """Return a ResourceManager's process that serves its pages at a port."""
    address = SimpleNamespace(status=psutil.CONN_LISTEN, laddr=SimpleNamespace(port=port))
    return SimpleNamespace(net_connections=lambda kind: [address])


def sidecar(pid: int, *above: Any, kind: str = "--managed", state: str = psutil.STATUS_SLEEPING) -> Any:
    """Return a sidecar's process below others."""
    return SimpleNamespace(
        pid=pid,
        cmdline=lambda: ["python", "-m", "treadle", "sidecar", kind],
        parents=lambda: list(above),
        username=lambda: "yarn",
        memory_info=lambda: SimpleNamespace(rss=1 << 20),
        status=lambda: state,
    )


def test_only_sidecars_of_the_cluster_that_is_named_are_shown(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(net_connections=lambda kind: [])
    every = [
        sidecar(7, manager(9099)),
        sidecar(8, shell, manager(8088)),
        sidecar(9, kind="--external"),
        sidecar(10),
    ]
    asked: list[frozenset[int]] = []

    def found(users: frozenset[int]) -> list[Any]:
        asked.append(users)
        return every

    monkeypatch.setattr(managers, "sidecars", found)

    def shown(facts: Facts) -> list[str]:
        return re.findall(r"process (\d+), of yarn, 1 MiB", "; ".join(each[1] for each in findings(facts, "sidecar")))

    assert shown(Facts(rms=("rm:8088",))) == ["8", "9"]
    assert shown(Facts(rms=("http://rm:9099",))) == ["7", "9"]
    write_site(conf, {CLASS_KEY: CLASS, "yarn.resourcemanager.webapp.address": "rm:9099"})
    assert shown(Facts(conf)) == ["7", "9"]
    assert set(asked) == {frozenset({0, os.geteuid()})}
    every.clear()
    assert findings(Facts(rms=("rm:8089",)), "sidecar")[0][0] == "skipped"


def test_a_sidecar_that_is_stopped_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        managers, "sidecars", lambda users: [sidecar(9, kind="--external", state=psutil.STATUS_STOPPED)]
    )
    status, text, remedy = findings(Facts(rms=("rm:8088",)), "sidecar")[0]
    assert (status, remedy) == ("fail", "kill -CONT 9")
    assert text.endswith("it is stopped (SIGSTOP) and answers nothing")


@pytest.mark.parametrize("check", ["modes", "clock", "lease"])
def test_a_check_alone_fails_if_no_manager_answers(check: str, cli: Cli) -> None:
    printed = cli(["doctor", "--only", check, "--rm", "http://127.0.0.1:9", "--output=json"], 1).out
    statuses = [each["status"] for each in json.loads(printed)]
    assert statuses == ["fail", "skipped"]


def test_what_keeps_managers_from_answering_is_reported_once() -> None:
    results = findings(Facts(rms=("http://127.0.0.1:9",)), "reach", "modes", "clock", "lease")
    assert [each[0] for each in results].count("fail") == 1


def test_a_yarn_without_a_class_path_is_quoted(conf: Path, tmp_path: Path) -> None:
    yarn = program(tmp_path / "yarn", does="echo there is no classpath here >&2\nexit 2")
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
def test_a_wrong_treadle_yaml_fails_with_its_line(text: str, said: str, conf: Path, tmp_path: Path, cli: Cli) -> None:
    yaml, ran = tmp_path / "treadle.yaml", tmp_path / "ran"
    write_site(conf, {CLASS_KEY: CLASS, f"{KEY}config.file": str(yaml)})
    asked = ["doctor", "--pre", "--only", "settings", "--output=json", "--hadoop-conf", str(conf)]
    yaml.write_text(text)
    failed = [each for each in json.loads(cli(asked, 1).out) if each["status"] == "fail"]
    assert [said in each["text"] for each in failed] == [True]
    (tmp_path / "part.py").write_text(f"open({str(ran)!r}, 'w')\n")
    yaml.write_text("policy: {order: {kind: file, path: part.py, class: X}}\n")
    assert run(asked) == 0
    assert not ran.exists(), "who looks runs no code of somebody else's"

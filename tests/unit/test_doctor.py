"""`treadle doctor`: every check finds what it is there for, says what to do, and the exit code tells."""

from __future__ import annotations

import getpass
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.doctor import findings as found
from tests.support.doctor import write_site as write
from tests.support.files import written
from tests.support.installing import conf_in, put_in_place, take_out
from tests.support.pages import FakeManager, served

from treadle import __version__
from treadle.admin import hadoop
from treadle.admin.doctor import CHECKS, chosen_checks
from treadle.admin.hadoop import Facts
from treadle.admin.plan import CLASS, CLASS_KEY, FORMAT
from treadle.cli.main import run
from treadle.compiled import cache_folder
from treadle.compiled.functions import folder_name
from treadle.live.process import kernel_cache

BEAN: dict[str, Any] = {
    "Mode": "enforce",
    "Policy": "share=capacity",
    "Schedules": 1,
    "LeaseHeld": 1,
    "LeaseFlips": 1,
    "SidecarStarts": 1,
    "LinkFailures": 0,
    "CaughtExceptions": 0,
    "Stalled": 0,
}
RUNTIME = {"Uptime": 7_200_000, "StartTime": 1}
HEALTHY = {CLASS_KEY: CLASS, "yarn.scheduler.treadle.mode": "enforce"}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir()
    write(folder, HEALTHY)
    return folder


@pytest.fixture
def managers() -> Iterator[list[FakeManager]]:
    """Two of a pair, the first one active."""
    with ExitStack() as stack:
        first = FakeManager(
            {"Treadle": dict(BEAN), "RMInfo": {"State": "active"}, "java.lang:type=Runtime": RUNTIME}, HEALTHY
        )
        second = FakeManager({"RMInfo": {"State": "standby"}}, HEALTHY)
        pair = [stack.enter_context(served(each)) for each in (first, second)]
        ids = {"yarn.resourcemanager.ha.enabled": "true", "yarn.resourcemanager.ha.rm-ids": "rm1,rm2"}
        for number, each in enumerate(pair, 1):
            ids[f"yarn.resourcemanager.webapp.address.rm{number}"] = each.url.removeprefix("http://")
        for each in pair:
            each.properties |= ids
        yield pair


def of_pair(conf: Path, managers: list[FakeManager]) -> Facts:
    write(conf, managers[0].properties)
    return Facts(conf)


def test_a_manager_that_runs_with_treadle_has_a_jar(
    conf: Path, managers: list[FakeManager], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hadoop, "shim_jar", lambda: tmp_path / "treadle-shim.jar")
    for name in ("HADOOP_HOME", "HADOOP_YARN_HOME"):
        monkeypatch.delenv(name, raising=False)
    ((status, text, _),) = found(of_pair(conf, managers), "jar")
    assert status == "ok"
    assert text == f"rm1 at {managers[0].url} runs with a jar of its own class path"
    del managers[0].beans["Treadle"]
    assert found(of_pair(conf, managers), "jar")[0][0] == "warn"


def test_a_healthy_pair_has_nothing_to_do(conf: Path, managers: list[FakeManager]) -> None:
    facts = of_pair(conf, managers)
    results = found(facts, "settings", "features", "reach", "modes", "clock", "lease")
    assert {status for status, _, _ in results} == {"ok"}
    texts = "\n".join(text for _, text, _ in results)
    assert f"rm1 at {managers[0].url} is active" in texts
    assert f"rm2 at {managers[1].url} is standby" in texts
    assert "on standby, would run mode enforce" in texts
    assert "1 flips of the lease, 1 starts of the sidecar, 0 failures in 2.0 h" in texts


def test_without_a_folder_it_looks_at_the_one_that_was_installed_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)

    def statuses() -> set[str]:
        run(["doctor", "--pre", "--only", "settings", "--output=json", "--prefix", str(tmp_path / "opt")])
        return {each["status"] for each in json.loads(capsys.readouterr().out)}

    assert statuses() == {"skipped"}
    put_in_place(conf_in(tmp_path))
    found = statuses()
    assert found and "skipped" not in found
    take_out(tmp_path / "conf")
    assert statuses() == {"skipped"}


def test_a_manager_that_does_not_answer_fails_and_the_other_is_reported(
    conf: Path, managers: list[FakeManager]
) -> None:
    facts = of_pair(conf, managers)
    gone = FakeManager({}, {})
    with served(gone):
        pass
    write(conf, managers[0].properties | {"yarn.resourcemanager.webapp.address.rm2": gone.url.removeprefix("http://")})
    results = found(facts, "reach")
    assert [status for status, _, _ in results] == ["fail", "ok"]
    assert gone.url in results[0][1]
    assert "start the ResourceManager" in results[0][2]


def test_a_pair_without_an_active_one_fails(conf: Path, managers: list[FakeManager]) -> None:
    managers[0].beans = {"RMInfo": {"State": "standby"}}
    assert ("fail", "no ResourceManager is active") in [each[:2] for each in found(of_pair(conf, managers), "reach")]


@pytest.mark.parametrize(("state", "word"), [("initializing", "starting"), ("stopping", "stopping")])
def test_one_that_starts_or_stops_is_not_said_to_run_without_treadle(
    conf: Path, managers: list[FakeManager], cli: Cli, state: str, word: str
) -> None:
    managers[0].beans = {"RMInfo": {"State": state}}
    results = found(of_pair(conf, managers), "modes")
    assert [status for status, text, _ in results if f"is {word}" in text] == ["skipped"]
    remedies = [remedy for status, _, remedy in found(of_pair(conf, managers), "reach") if status == "fail"]
    assert ["wait a moment" in remedy for remedy in remedies] == [True]
    said = " ".join(cli(["status", "--rm", managers[0].url], 2).err.split())
    assert f"the ResourceManager at {managers[0].url} is {word}: nothing is scheduled" in said
    assert "without Treadle" not in said


def test_a_standby_that_would_run_the_stock_scheduler_fails(conf: Path, managers: list[FakeManager]) -> None:
    facts = of_pair(conf, managers)
    del managers[1].properties[CLASS_KEY]
    status, text, remedy = found(facts, "modes")[-1]
    assert status == "fail"
    assert "rm2" in text
    assert "would run the CapacityScheduler" in text
    assert "treadle install on its host too" in remedy


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"Refusal": "multi-node placement: set x to false", "Schedules": 0}, "is refused: multi-node placement"),
        ({"Schedules": 0}, "mode enforce, and the CapacityScheduler places containers"),
    ],
)
def test_an_enforcing_manager_that_does_not_schedule_fails(
    changed: dict[str, Any], said: str, conf: Path, managers: list[FakeManager]
) -> None:
    managers[0].beans["Treadle"] |= changed
    results = [text for status, text, _ in found(of_pair(conf, managers), "modes") if status == "fail"]
    assert len(results) == 1
    assert said in results[0]


def test_what_the_shim_complains_of_is_a_warning(conf: Path, managers: list[FakeManager]) -> None:
    managers[0].beans["Treadle"] |= {"LastError": "E1", "Warnings": "W1", "IgnoredSettings": "I1"}
    texts = [text for status, text, _ in found(of_pair(conf, managers), "modes") if status == "warn"]
    assert [text.rpartition(": ")[2] for text in texts] == ["E1", "W1", "I1"]


@pytest.mark.parametrize(("ahead_s", "status"), [(0, "ok"), (60, "warn"), (-60, "warn"), (3600, "fail")])
def test_clocks_that_differ_are_reported(ahead_s: float, status: str, conf: Path, managers: list[FakeManager]) -> None:
    facts = of_pair(conf, managers)
    managers[0].date_s = time.time() + ahead_s
    result = found(facts, "clock")[0]
    assert result[0] == status
    assert ("ahead" in result[1]) == (ahead_s > 0) or status == "ok"


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"LeaseFlips": 12}, "ok", "12 flips"),
        ({"LeaseFlips": 13}, "warn", "13 flips"),
        ({"LeaseHeld": 0}, "fail", "no engine holds the lease now"),
        ({"LeaseHeld": 0, "Mode": "off"}, "ok", "1 flips"),
        ({"CaughtExceptions": 2}, "fail", "2 exceptions caught"),
        ({"Stalled": 1}, "fail", "places nothing although it could"),
    ],
)
def test_how_leases_were_held(
    changed: dict[str, Any], status: str, said: str, conf: Path, managers: list[FakeManager]
) -> None:
    managers[0].beans["Treadle"] |= changed
    assert (status, True) in [(each[0], said in each[1]) for each in found(of_pair(conf, managers), "lease")]


@pytest.mark.parametrize(
    ("values", "status", "said"),
    [
        ({CLASS_KEY: "fair.FairScheduler"}, "fail", "stands in for the CapacityScheduler alone"),
        ({}, "warn", "treadle install"),
        ({"yarn.scheduler.treadle.lease": "1"}, "warn", "did you mean lease-ms?"),
        ({"yarn.scheduler.treadle.sidecar": "external"}, "fail", "set it"),
        (
            {"yarn.scheduler.treadle.python.command": "/no/such"},
            "fail",
            "correct yarn.scheduler.treadle.python.command",
        ),
        ({"yarn.scheduler.treadle.config.file": "/no/such.yaml"}, "fail", "unset yarn.scheduler.treadle.config.file"),
    ],
)
def test_wrong_settings_are_named(values: dict[str, str], status: str, said: str, conf: Path) -> None:
    write(conf, {"a": "b", **values})
    assert [True for each in found(Facts(conf), "settings") if each[0] == status and said in each[2]] == [True]


MONITOR = "yarn.resourcemanager.scheduler.monitor.enable"
PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption."
LENT = "yarn.resourcemanager.node-labels.am.allow-non-exclusive-allocation"
INSIDE = f"{PREEMPTION}intra-queue-preemption.enabled"


@pytest.mark.parametrize(
    ("values", "policy", "said"),
    [
        ({"yarn.scheduler.capacity.multi-node-placement-enabled": "true"}, "", "multi-node placement"),
        ({"yarn.scheduler.capacity.lazy-preemption-enabled": "true", MONITOR: "true"}, "", "lazy preemption"),
        ({"yarn.scheduler.capacity.lazy-preemption-enabled": "true"}, "", ""),
        ({MONITOR: "true"}, "policy: {share: {kind: hdrf}}", "works against share hdrf"),
        ({MONITOR: "true", f"{PREEMPTION}observe_only": "true"}, "policy: {share: {kind: hdrf}}", ""),
        ({MONITOR: "true", f"{PREEMPTION}select_based_on_reserved_containers": "true"}, "", "starts from reservations"),
        ({f"{PREEMPTION}select_based_on_reserved_containers": "true"}, "", ""),
        ({"yarn.scheduler.capacity.root.a.ordering-policy": "org.mine.Order"}, "", "the order org.mine.Order"),
        ({"yarn.scheduler.capacity.root.ordering-policy": "priority-utilization"}, "", ""),
        ({MONITOR: "true"}, "policy: {order: {kind: srpt}}", ""),
        ({MONITOR: "true", INSIDE: "true"}, "policy: {order: {kind: srpt}}", "works against order srpt, gate all"),
        ({LENT: "true", "yarn.node-labels.enabled": "true"}, "", "application masters on lent nodes"),
    ],
)
@pytest.mark.parametrize(("mode", "status"), [("enforce", "fail"), ("observe_only", "warn")])
def test_features_that_enforce_refuses(
    values: dict[str, str], policy: str, said: str, mode: str, status: str, conf: Path
) -> None:
    yaml = written(conf / "treadle.yaml", policy)
    write(conf, {"yarn.scheduler.treadle.mode": mode, "yarn.scheduler.treadle.config.file": str(yaml), **values})
    results = found(Facts(conf), "features")
    if said:
        assert [(each[0], said in each[1], "set " in each[2]) for each in results] == [(status, True, True)]
    else:
        assert [each[0] for each in results] == ["ok"]


def test_the_keys_are_those_of_the_shim() -> None:
    source = Path(__file__).parents[2] / "java-shim/shim/src/main/java/io/treadle/shim/ShimConfig.java"
    named = [line.partition('PREFIX + "')[2].partition('"')[0] for line in source.read_text().splitlines()]
    assert sorted(hadoop.KEYS) == sorted(filter(None, named))


def test_compiled_code_is_looked_for_where_the_sidecar_looks(tmp_path: Path, conf: Path) -> None:
    yaml, folder = tmp_path / "treadle.yaml", tmp_path / "kernels"
    yaml.write_text(f"kernels: {{folder: {folder}}}\n")
    write(conf, {"yarn.scheduler.treadle.config.file": str(yaml)})
    facts = Facts(conf, user_given=getpass.getuser())
    status, text, remedy = found(facts, "kernels")[0]
    assert status == "fail"
    assert f"{folder} is missing; make it as the sidecar's user: mkdir -p -m 700" in text
    folder.mkdir(mode=0o700)
    status, text, remedy = found(facts, "kernels")[0]
    assert (status, remedy) == ("warn", f"sudo -u {getpass.getuser()} treadle sidecar warm-up --config {yaml}")
    assert "nothing compiled of this release" in text
    kept = folder / folder_name()
    kept.mkdir(mode=0o700)
    (kept / "a.nbi").touch()
    assert found(facts, "kernels")[0][:2] == (
        "ok",
        f"1 compiled functions of this release in {folder}, for {getpass.getuser()}",
    )
    kept.chmod(0o777)
    assert found(facts, "kernels")[0][0] == "fail", "what another user has put there is not run"
    kept.chmod(0o700)
    folder.chmod(0o777)
    assert found(facts, "kernels")[0][0] == "fail"


def test_doctor_and_sidecar_agree_where_code_is_kept_without_a_chosen_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment variables name a folder that the sidecar does not take, and doctor does not show."""
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    unsafe, safe = tmp_path / "unsafe", tmp_path / "safe"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    safe.mkdir(mode=0o700)
    monkeypatch.setattr(cache_folder, "places", lambda _: [unsafe, safe])
    facts = Facts(user_given=getpass.getuser())
    assert kernel_cache(None).why_private == ""
    assert os.environ["NUMBA_CACHE_DIR"] == str(safe)
    assert f"nothing compiled of this release in {safe}:" in found(facts, "kernels")[0][1]
    safe.chmod(0o777)
    cache = kernel_cache(None)
    assert cache.why_private
    cache.remove()
    status, text, _ = found(facts, "kernels")[0]
    assert status == "warn"
    assert "has no safe place for compiled code" in text
    assert f"{safe} may be written by everybody" in text


def test_files_that_others_may_change_fail(tmp_path: Path, conf: Path) -> None:
    yaml = written(tmp_path / "treadle.yaml", "seed: 3\n")
    write(conf, {"yarn.scheduler.treadle.config.file": str(yaml)})
    facts = Facts(conf, user_given=getpass.getuser())
    assert found(facts, "owners")[0][0] == "ok"
    yaml.chmod(0o666)
    status, text, _ = found(facts, "owners")[0]
    assert status == "fail"
    assert f"{yaml} may be written by everybody" in text


@pytest.mark.parametrize(("mode", "status"), [(0o600, "ok"), (0o640, "fail"), (0o604, "fail")])
def test_a_secret_that_others_may_read_fails(mode: int, status: str, tmp_path: Path, conf: Path) -> None:
    secret = tmp_path / "connection.json"
    keys = {"sidecar": "external", "sidecar.connection-file": str(secret)}
    write(conf, {f"yarn.scheduler.treadle.{key}": value for key, value in keys.items()})
    facts = Facts(conf, user_given=getpass.getuser())
    assert found(facts, "connection")[0][::2] == ("warn", "treadle sidecar restart")
    secret.write_text("{}")
    secret.chmod(mode)
    assert found(facts, "connection")[0][0] == status


def test_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.admin.doctor.MEMORY_MB", 1 << 40)
    assert found(Facts(), "memory")[0][0] == "warn"


def test_a_check_that_fails_itself_is_reported_and_the_others_go_on(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: 1 // 0)
    results = found(Facts(conf), "memory", "settings")
    assert results[0][0] == "fail"
    assert "ZeroDivisionError" in results[0][1]
    assert results[1][0] == "ok"


def test_the_command_tells_by_its_exit_code(conf: Path, managers: list[FakeManager], cli: Cli) -> None:
    of_pair(conf, managers)
    words = ["doctor", "--hadoop-conf", str(conf), "--only", "reach", "--only", "modes"]
    said = cli(words).out
    assert "ResourceManagers\n  ok" in said
    assert "0 failed, 0 to look at, of 4 findings" in said
    managers[0].beans["Treadle"] |= {"Schedules": 0}
    plain = json.loads(cli([*words, "--output=json"], 1).out)
    assert {"group", "check", "status", "text", "remedy"} == set(plain[0])
    assert [each["status"] for each in plain].count("fail") == 1


def test_before_an_installation_no_resource_manager_is_asked(conf: Path, cli: Cli) -> None:
    names = {check.name for check in chosen_checks((), pre=True)}
    assert names == {check.name for check in CHECKS if check.group != "ResourceManagers"}
    assert "python" in cli(["doctor", "--pre", "--hadoop-conf", str(conf), "--only", "python"]).out


def test_an_unknown_check_is_an_error_that_lists_all(cli: Cli) -> None:
    said = cli(["doctor", "--only", "kernel"], 2).err
    assert "did you mean kernels?" in said
    assert all(check.name in said for check in CHECKS)


def test_status_on_standby_names_the_active_one(managers: list[FakeManager], cli: Cli) -> None:
    said = cli(["status", "--rm", managers[1].url], 2).err
    assert f"the ResourceManager at {managers[1].url} is on standby" in said
    assert f"ask the active one: --rm {managers[0].url}" in said
    managers[0].beans = {}
    assert "it runs without Treadle" in cli(["status", "--rm", managers[0].url], 2).err
    assert "yarn rmadmin -getAllServiceState" in cli(["status", "--rm", managers[1].url], 2).err


def test_an_installation_that_was_changed_fails(tmp_path: Path) -> None:
    facts = Facts(prefix=tmp_path / "opt", user_given=getpass.getuser())
    assert found(facts, "installation")[0][0] == "skipped"
    release = tmp_path / "opt" / __version__
    release.mkdir(parents=True)
    known = {"format": FORMAT, "release": __version__, "user": "yarn", "releases": [], "folders": [], "files": {}}
    (tmp_path / "opt" / "installed.json").write_text(json.dumps(known))
    status, text, remedy = found(facts, "installation")[0]
    assert (status, remedy) == ("fail", "run the same `treadle install` again")
    assert "is not as it was installed" in text

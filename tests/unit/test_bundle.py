"""The archive of `treadle doctor --bundle` holds what helps, and no secret, wherever one stands."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from tests.support.cli import Cli
from tests.support.decoys import RESOURCE_MANAGER, decoy
from tests.support.doctor import write_site
from tests.support.files import written
from tests.support.pages import FakeManager, served

from treadle.admin import bundle
from treadle.admin.bundle import HIDDEN, Redactor
from treadle.admin.hadoop import Facts
from treadle.admin.plan import CLASS, CLASS_KEY
from treadle.cli.main import run
from treadle.errors import ConfigError

SECRETS = (
    "hunter2",
    "s3cr3t-Pa55",
    "eyJhbGciOiJIUzI1NiJ9.e30.Abc",
    "swordfish",
    "AKIAIOSFODNN7EXAMPLE",
    "deadbeefcafe0123deadbeef",
)
URL = "postgresql+psycopg://ann:hunter2@db.example.org/treadle"


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A site that has a secret in every place that the archive is made of."""
    conf, logs = tmp_path / "conf", tmp_path / "logs"
    conf.mkdir()
    logs.mkdir()
    content = f"history:\n  store: {URL}\npolicy: {{share: {{kind: hdrf}}}}\nseed: 7\n# swordfish\n"
    config = written(tmp_path / "treadle.yaml", content)
    values = {
        CLASS_KEY: CLASS,
        "yarn.scheduler.treadle.mode": "enforce",
        "yarn.scheduler.treadle.config.file": str(config),
        "yarn.resourcemanager.zk-auth": "digest:rm:s3cr3t-Pa55",
        "hadoop.security.password": "hunter2",
        "yarn.scheduler.capacity.root.a.capacity": "40",
        "yarn.scheduler.capacity.root.a.acl_submit_applications": "swordfish",
        "yarn.scheduler.capacity.root.b.capacity": "swordfish",
    }
    write_site(conf, values)
    lines = [
        "2026-11-23 07:10:32,123 WARN treadle.live.history_writer: jobs are not remembered: " + URL,
        "2026-11-23 07:10:33,000 INFO treadle.live.process: ready: process 17 listens on port 4711",
        *(
            f"2026-11-23 07:10:33,000 INFO treadle.live.process: password={secret} token: {secret} {secret}"
            for secret in SECRETS
        ),
        "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.Abc",
    ]
    (logs / "treadle-sidecar.log").write_text("\n".join(lines))
    (logs / "hadoop-yarn-resourcemanager-h.log").write_text(
        "2026-11-23 07:10:30,000 INFO org.apache.hadoop.x.Y: somebody's line with hunter2\n"
        "2026-11-23 07:10:31,000 WARN io.treadle.shim.link.Link: no engine holds the lease: hunter2 swordfish\n"
        "java.io.IOException: connection refused by swordfish\n"
        "\tat io.treadle.shim.link.Link.run(Link.java:120)\n"
        "2026-11-23 07:10:32,000 INFO org.apache.hadoop.x.Y: the secret is swordfish\n"
    )
    monkeypatch.setenv("YARN_LOG_DIR", str(logs))
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    bean = {
        "Mode": "enforce",
        "Policy": "gate=all share=hdrf",
        "LastError": f"no store: {URL}",
        "Schedules": 1,
        "LeaseHeld": 1,
        "Committed": 42,
    }
    beans: dict[str, dict[str, Any]] = {
        "Treadle": bean,
        "Treadle+": {"Placements": json.dumps({"application_1_0001": {"treadle": 5, "native": 7}})},
        "RMInfo": {"State": "active"},
        "Other": {"Secret": "hunter2"},
    }
    with served(FakeManager(beans, {})) as manager:
        yield {"conf": conf, "manager": manager, "logs": logs, "out": tmp_path / "bundle.tar.gz"}


def made(site: dict[str, Any]) -> dict[str, str]:
    words = ["doctor", "--hadoop-conf", str(site["conf"]), "--rm", site["manager"].url, "--bundle", str(site["out"])]
    run([*words, "--only", "modes", "--only", "settings"])
    with tarfile.open(site["out"]) as archive:
        members = archive.getmembers()
        assert {each.mode for each in members} == {0o600}
        return {each.name.partition("/")[2]: archive.extractfile(each).read().decode() for each in members}  # type: ignore[union-attr]


def test_no_secret_is_in_it_and_what_helps_is(site: dict[str, Any]) -> None:
    parts = made(site)
    everything = "\n".join([*parts, *parts.values()])
    assert [secret for secret in SECRETS if secret in everything] == []
    assert "ann" not in parts["sidecar.log"].split()
    assert "db.example.org" not in everything
    assert site["out"].stat().st_mode & 0o777 == 0o600

    assert "ready: process 17 listens on port 4711" in parts["sidecar.log"]
    assert "WARN treadle.live.history_writer: jobs are not remembered:" in parts["sidecar.log"]
    assert "\tat io.treadle.shim.link.Link.run(Link.java:120)".strip() in parts["resourcemanager.log"]
    assert "no engine holds the lease" in parts["resourcemanager.log"]
    assert "somebody" not in parts["resourcemanager.log"]
    assert "yarn.scheduler.treadle.mode = enforce" in parts["settings.txt"]
    assert "yarn.scheduler.capacity.root.<1>.capacity = 40" in parts["settings.txt"]
    assert "zk-auth" not in parts["settings.txt"]
    assert "kind: hdrf" in parts["treadle.yaml"]
    assert f"store: {HIDDEN}" in parts["treadle.yaml"]
    beans = json.loads(parts["beans.json"])[0]["beans"]
    assert beans["Treadle"]["Status"]["Committed"] == 42
    assert beans["Treadle"]["Status"]["Policy"] == "gate=all share=hdrf"
    assert beans["Treadle"]["Placements"]["application_1_0001"] == {"treadle": 5, "native": 7}
    assert "numba " in parts["host.txt"]
    assert "jstack.txt" not in parts


def test_an_archive_is_never_written_over_anything(site: dict[str, Any], cli: Cli) -> None:
    target = written(site["out"].with_name("precious"), "precious")
    for how in (lambda: site["out"].write_text("mine"), lambda: (site["out"].unlink(), site["out"].symlink_to(target))):
        how()
        assert (
            "File exists; name a new file" in cli(["doctor", "--only", "python", "--bundle", str(site["out"])], 2).err
        )
    assert target.read_text() == "precious"


def test_a_log_that_is_a_link_is_not_followed(site: dict[str, Any]) -> None:
    log = site["logs"] / "treadle-sidecar.log"
    log.unlink()
    log.symlink_to("/etc/passwd")
    parts = made(site)
    assert parts["sidecar.log"].startswith("not there: OSError")
    assert "root" not in parts["sidecar.log"]


def test_a_long_log_is_cut_at_its_begin(site: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "TAIL_BYTES", 1000)
    log = site["logs"] / "treadle-sidecar.log"
    log.write_text("".join(f"frame {number}\n" for number in range(100_000)))
    text = made(site)["sidecar.log"]
    assert len(text) <= 1000
    assert "frame 99999" in text


def test_a_stack_trace_is_shown_without_what_is_unknown(redactor: Redactor) -> None:
    text = (
        "java.io.IOException: refused by hunter2\n"
        "\tat java.base@17.0.11/jdk.internal.misc.Unsafe.park(Native Method)\n"
        "\tat io.treadle.shim.link.Link.run(Link.java:120)"
    )
    shown = redactor.text(text)
    assert "hunter2" not in shown
    for line in text.split("\n")[1:]:
        assert line.strip() in shown


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "password: engine",
        "secret engine",
        "the password is: engine",
        "Bearer engine",
        "key=engine",
        "https://user:engine@host/",
        "a1b2c3d4e5f6",
        "AAAA1BBBB2",
        "dXNlcjpwYXNz==",
        "/srv/ann/.keys",
        "x" * 100,
        ")" * 200_000 + "engine",
        "java.password.set(hunter2)",
        "treadle.zoe.org",
        "java.zoe.org",
    ],
)
def test_what_could_be_a_secret_is_hidden(text: str, redactor: Redactor) -> None:
    shown = redactor.line(text)
    assert HIDDEN in shown
    assert not {"hunter2", "engine", "a1b2c3d4e5f6", "AAAA1BBBB2", "ann", "zoe"} & set(
        re.sub("[/=().]", " ", shown).split()
    )


@pytest.mark.parametrize(
    "text",
    [
        "no engine holds the lease",
        "application_1700000000000_0042",
        "2026-11-23 07:10:32,123 INFO",
        "settings 3 refused, the old ones are kept:",
        "gate=all share=capacity order=queue",
    ],
)
def test_what_treadle_says_itself_is_shown(text: str, redactor: Redactor) -> None:
    assert redactor.line(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "47114711"}',
        "{'token': 4711471147114711}",
        "password: 47114711",
        "password->47114711",
        "password='47114711'",
        '"secret":"47114711"',
        "client_secret 47114711",
        "my.secret.value 47114711",
        "secret_key 47114711",
        "credential-provider 47114711",
        "api-key:4711-4711-4711",
        "-Djavax.net.ssl.keyStorePassword=47114711",
        "the password of the engine is then 47114711",
        "Authorization: Basic 47114711",
        "passphrase (47114711)",
        "PIN 47114711",
        "pw=47114711",
        "dbPw=47114711",
        "x?unknown=47114711",
    ],
)
def test_a_secret_of_digits_is_hidden(text: str, redactor: Redactor) -> None:
    shown = redactor.line(f"2026-11-23 07:10:32,123 INFO treadle.live.process: {text}")
    assert shown.startswith("2026-11-23 07:10:32,123 INFO treadle.live.process: ")
    assert HIDDEN in shown
    assert "4711" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "10.1.2.3",
        "10.1.2.3:8088",
        "(10.1.2.3)",
        "at/10.1.2.3",
        "10.1.2.3/24",
        "n-10-1-2-3",
        "2001:470:0:1::5",
        "1.2.3.4",
    ],
)
def test_addresses_are_hidden(text: str, redactor: Redactor) -> None:
    assert redactor.line(f"no engine at {text}") in {f"no engine at {each}" for each in (HIDDEN, f"({HIDDEN})")}


@pytest.mark.parametrize("text", ["4711", "3.5", "12%", "17/4711", "1,234,567", "250ms", "0.1.0", "#7", "-1", "300s"])
def test_numbers_are_shown(text: str, redactor: Redactor) -> None:
    assert redactor.line(f"no engine: {text}") == f"no engine: {text}"


def test_a_number_that_json_or_yaml_calls_a_secret_is_hidden(redactor: Redactor) -> None:
    plain = {"password": 4711, "Committed": 42, "nested": [{"apiKey": [4711], "frames": 7}]}
    shown = json.dumps(redactor.plain(plain))
    assert "4711" not in shown
    assert "42" in shown
    assert "7" in shown
    text = "seed: 7\nhistory: {password: 4711, days: 30}\n"
    values = bundle._known_values(yaml.safe_load(text), redactor)
    assert "4711" not in str(values)
    assert values["seed"] == 7


def test_keys_of_settings_name_no_queue_and_no_user(site: dict[str, Any]) -> None:
    capacity = "yarn.scheduler.capacity"
    write_site(
        site["conf"],
        {
            CLASS_KEY: CLASS,
            f"{capacity}.root.acme.capacity": "60",
            f"{capacity}.root.acme.merger.capacity": "25",
            f"{capacity}.root.acme.merger.maximum-capacity": "50",
            f"{capacity}.root.acme.accessible-node-labels.laser.capacity": "100",
            f"{capacity}.root.acme.user-settings.zoe.weight": "2",
            f"{capacity}.root.capacity": "100",
            "hadoop.proxyuser.zoe.hosts": "*",
            "yarn.custom.zoe": "1",
        },
    )
    text = made(site)["settings.txt"]
    assert [word for word in ("acme", "merger", "laser", "zoe") if word in text] == []
    for line in (
        f"{capacity}.root.<1>.capacity = 60",
        f"{capacity}.root.<1>.<3>.capacity = 25",
        f"{capacity}.root.<1>.<3>.maximum-capacity = 50",
        f"{capacity}.root.<1>.accessible-node-labels.<2>.capacity = 100",
        f"{capacity}.root.capacity = 100",
        "3 other settings are set",
    ):
        assert line in text.splitlines()


def test_no_process_says_where_the_logs_are(
    site: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "rm.log").write_text("2026-01-01 00:00:00,000 WARN treadle worker\n")
    monkeypatch.delenv("YARN_LOG_DIR")
    monkeypatch.delenv("HADOOP_LOG_DIR", raising=False)
    with decoy("-Dyarn.log.dir=" + str(planted), RESOURCE_MANAGER, str(site["conf"])):
        parts = made(site)
    assert "worker" not in parts["resourcemanager.log"]
    assert "no log is known: set YARN_LOG_DIR" in parts["resourcemanager.log"]
    site["out"].unlink()
    (site["conf"] / "yarn-env.sh").write_text(f'export YARN_LOG_DIR="{site["logs"]}"  # ours\n')
    assert "no engine holds the lease" in made(site)["resourcemanager.log"]


def test_aliases_of_a_treadle_yaml_are_not_written_out(tmp_path: Path, redactor: Redactor) -> None:
    config = written(tmp_path / "treadle.yaml", "a: &a [x]\npolicy: {share: {kind: *a}}\n")
    with pytest.raises(ConfigError, match="aliases"):
        bundle._treadle_yaml(cast(Facts, SimpleNamespace(config=config)), redactor)


def test_control_characters_do_not_get_through(redactor: Redactor) -> None:
    assert "\x1b" not in redactor.text("the \x1b[2J engine")

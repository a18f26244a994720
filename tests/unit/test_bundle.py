"""The archive of `treadle doctor --bundle` holds what helps, and no secret, wherever one stands."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.pages import FakeManager, served

from treadle.admin.doctor import bundle
from treadle.admin.doctor.redact import HIDDEN, Redactor
from treadle.admin.host.plan import CLASS, CLASS_KEY
from treadle.cli.main import run

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
    yaml = tmp_path / "treadle.yaml"
    yaml.write_text(f"profiles:\n  store: {URL}\npolicy: {{share: {{kind: hdrf}}}}\nseed: 7\n# swordfish\n")
    values = {
        CLASS_KEY: CLASS,
        "yarn.scheduler.treadle.mode": "enforce",
        "yarn.scheduler.treadle.config.file": str(yaml),
        "yarn.resourcemanager.zk-auth": "digest:rm:s3cr3t-Pa55",
        "hadoop.security.password": "hunter2",
        "yarn.scheduler.capacity.root.a.capacity": "40",
        "yarn.scheduler.capacity.root.a.acl_submit_applications": "swordfish",
        "yarn.scheduler.capacity.root.b.capacity": "swordfish",
    }
    entries = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
    (conf / "yarn-site.xml").write_text(f"<configuration>{entries}</configuration>")
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
    monkeypatch.setattr(bundle, "resource_managers", list)
    bean = {
        "tag.Mode": "enforce",
        "tag.Policy": "gate=all share=hdrf",
        "tag.LastError": f"no store: {URL}",
        "Schedules": 1,
        "LeaseHeld": 1,
        "Committed": 42,
    }
    beans: dict[str, dict[str, Any]] = {
        "Treadle": bean,
        "TreadleObservation": {"Observation": json.dumps({"by_queue": {"root.swordfish": {"agreed": 5}}})},
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
    assert f"yarn.resourcemanager.zk-auth = {HIDDEN}" in parts["settings.txt"]
    assert "yarn.scheduler.capacity.root.a.capacity = 40" in parts["settings.txt"]
    assert "kind: hdrf" in parts["treadle.yaml"]
    assert f"store: {HIDDEN}" in parts["treadle.yaml"]
    beans = json.loads(parts["beans.json"])[0]["beans"]
    assert beans["Treadle"]["Committed"] == 42
    assert beans["Treadle"]["tag.Policy"] == "gate=all share=hdrf"
    assert "agreed" in json.dumps(beans["TreadleObservation"])
    assert "numba " in parts["host.txt"]
    assert "no ResourceManager runs on this host" in parts["jstack.txt"]


def test_an_archive_is_never_written_over_anything(site: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    target = site["out"].with_name("precious")
    target.write_text("precious")
    for how in (lambda: site["out"].write_text("mine"), lambda: (site["out"].unlink(), site["out"].symlink_to(target))):
        how()
        assert run(["doctor", "--only", "python", "--bundle", str(site["out"])]) == 2
        assert "File exists; name a new file" in capsys.readouterr().err
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
    monkeypatch.setattr(bundle._text_of, "__defaults__", (1000,))
    log = site["logs"] / "treadle-sidecar.log"
    log.write_text("".join(f"frame {number}\n" for number in range(100_000)))
    text = made(site)["sidecar.log"]
    assert len(text) <= 1000
    assert "frame 99999" in text


def test_threads_of_a_real_java_are_shown_without_what_is_unknown(redactor: Redactor) -> None:
    text = (
        '"treadle-link-1" #45 daemon prio=5 os_prio=0 cpu=12.34ms tid=0x00007f12 nid=0x1b waiting on condition\n'
        "   java.lang.Thread.State: TIMED_WAITING (parking)\n"
        "\tat java.base@17.0.11/jdk.internal.misc.Unsafe.park(Native Method)\n"
        "\tat io.treadle.shim.link.Link.run(Link.java:120)\n"
        '"session of hunter2" #46 prio=5'
    )
    shown = redactor.text(text)
    assert "hunter2" not in shown
    for line in text.split("\n")[1:4]:
        assert line.strip() in shown
    assert shown.startswith('"treadle-link-1" #45 daemon prio=5')


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
    ],
)
def test_what_could_be_a_secret_is_hidden(text: str, redactor: Redactor) -> None:
    shown = redactor.line(text)
    assert HIDDEN in shown
    assert not {"hunter2", "engine", "a1b2c3d4e5f6", "AAAA1BBBB2", "ann"} & set(
        shown.replace("/", " ").replace("=", " ").split()
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


def test_control_characters_do_not_get_through(redactor: Redactor) -> None:
    assert "\x1b" not in redactor.text("the \x1b[2J engine")

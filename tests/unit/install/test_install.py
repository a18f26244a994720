"""`treadle install` puts all in place or nothing, a second run changes nothing, `uninstall` takes everything back."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import re
import subprocess
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.decoys import RESOURCE_MANAGER, decoy
from tests.support.files import written
from tests.support.installing import (
    ENV,
    NOW,
    SITE,
    nothing,
    options,
    put_in_place,
    snapshot,
    take_out,
    use_small_environment,
    values,
)

import treadle
from treadle.admin import install, plan
from treadle.admin.environment import needed_distributions
from treadle.admin.install import carry_out, plan_of, plan_removal, remove
from treadle.admin.plan import (
    CLASS,
    CLASS_KEY,
    DEFAULT_PREFIX,
    Manifest,
    Plan,
    found_prefix,
    installed_user,
    put,
    sidecar_users,
)
from treadle.admin.site_files import INCLUDE, REQUIREMENTS, jar_in, with_jar
from treadle.cli.main import run
from treadle.errors import UserError


def test_an_installation_is_in_place_and_its_end_is_as_the_beginning(conf: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    said = put_in_place(conf)
    prefix, release = tmp_path / "opt", treadle.__version__
    assert values(conf) == {
        "yarn.resourcemanager.hostname": "rm",
        CLASS_KEY: CLASS,
        "yarn.scheduler.treadle.mode": "observe_only",
        "yarn.scheduler.treadle.python.command": f"{prefix}/{release}/bin/treadle",
        "yarn.scheduler.treadle.config.file": f"{prefix}/etc/treadle.yaml",
    }
    line = f"  {INCLUDE}\n</configuration>".encode()
    assert (conf / "yarn-site.xml").read_bytes() == SITE.replace(b"</configuration>", line)
    assert (conf / "yarn-site.xml").stat().st_mode & 0o777 == 0o640
    assert (conf / "yarn-env.sh").stat().st_mode & 0o777 == 0o755
    assert (conf / "yarn-site.xml.treadle-20261123-073000").read_bytes() == SITE
    assert (prefix / "current" / "bin" / "treadle").is_file()
    assert (prefix / "kernels").stat().st_mode & 0o777 == 0o700
    assert f"folder: {prefix}/kernels" in (prefix / "etc" / "treadle.yaml").read_text()
    assert not [line for line in said if "left" in line]

    gone = take_out(conf)
    assert snapshot(tmp_path) == before
    assert f"restored {conf}/yarn-site.xml, as it was byte for byte" in gone


def words(conf: Path) -> list[str]:
    prefix = str(conf.parent / "opt")
    return ["install", "--hadoop-conf", str(conf), "--prefix", prefix, "--user", getpass.getuser()]


def test_a_dry_run_writes_nothing(conf: Path, tmp_path: Path, cli: Cli) -> None:
    before = snapshot(tmp_path)
    said = cli([*words(conf), "--dry-run"]).out
    assert f"+    <value>{CLASS}</value>" in said
    assert f"--- {conf}/yarn-site.xml" in said
    assert "nothing was changed" in said
    assert snapshot(tmp_path) == before


def test_a_second_run_changes_nothing_and_reports_that(
    conf: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "compile_kernels", nothing)
    assert "restart the ResourceManager" in cli(words(conf)).out
    before = snapshot(tmp_path)
    assert "nothing to do" in cli(words(conf)).out
    assert snapshot(tmp_path) == before
    monkeypatch.setattr(install, "processes_below", lambda _: [])
    assert run(["uninstall", "--prefix", str(tmp_path / "opt"), "--dry-run"]) == 0
    assert snapshot(tmp_path) == before
    assert run(["uninstall", "--prefix", str(tmp_path / "opt")]) == 0
    assert "holds no installation" in cli(["uninstall", "--prefix", str(tmp_path / "opt")], 2).err


STEPS = ["warm-up", "make_environment", "_point", "put yarn-env.sh", "put yarn-site.xml", "save", "interrupt"]


@pytest.mark.parametrize("step", STEPS)
def test_whatever_fails_everything_is_as_it_was(
    step: str, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(tmp_path)
    planned = plan_of(options(conf))
    error = KeyboardInterrupt() if step == "interrupt" else UserError("no luck")

    def fail(*_: object, **__: object) -> None:
        raise error

    def full(path: Path, data: bytes, *more: object) -> None:
        if path.name == step.removeprefix("put ") and b"treadle" in data:
            raise OSError(28, "No space left on device", str(path))
        put(path, data, *more)  # type: ignore[arg-type]

    if step.startswith("put "):
        monkeypatch.setattr(install, "put", full)
    elif step == "save":
        monkeypatch.setattr(Manifest, "save", fail)
    elif step in {"make_environment", "_point"}:
        monkeypatch.setattr(install, step, fail)
    with pytest.raises(type(error)) as raised:
        carry_out(planned, NOW, nothing, fail if step in {"warm-up", "interrupt"} else nothing)
    assert snapshot(tmp_path) == before
    assert step == "interrupt" or "everything is as it was" in str(raised.value)


def test_an_upgrade_keeps_the_other_release_and_names_its_own(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(tmp_path)
    put_in_place(conf)
    enforce(conf)
    site = (conf / "yarn-site.xml").read_bytes()
    for module in (install, plan):
        monkeypatch.setattr(module, "__version__", "9.9.9")
    planned = plan_of(options(conf))
    assert f"other releases stay in {tmp_path}/opt until `treadle uninstall`: {treadle.__version__}" in planned.remarks
    put_in_place(conf)
    prefix = tmp_path / "opt"
    assert values(conf)["yarn.scheduler.treadle.python.command"] == f"{prefix}/9.9.9/bin/treadle"
    assert values(conf)["yarn.scheduler.treadle.mode"] == "enforce"
    assert (conf / "yarn-site.xml").read_bytes() == site, "only treadle-site.xml changes"
    jars = [f"{prefix}/9.9.9/lib/treadle-{name}.jar" for name in ("shim", "requirements")]
    assert ":".join(jars) in (conf / "yarn-env.sh").read_text()
    assert (prefix / "current").readlink() == Path("9.9.9")
    assert (prefix / treadle.__version__ / "bin" / "treadle").is_file()
    take_out(conf)
    assert snapshot(tmp_path) == before


def test_others_may_read_it_whatever_the_administrators_umask(conf: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        put_in_place(conf)
    finally:
        os.umask(before)
    own = {"kernels", "etc/.treadle.yaml.state"}
    prefix = tmp_path / "opt"
    wanted = {name: 0o055 if mode & 0o111 else 0o044 for name, (mode, *_) in snapshot(prefix).items()}
    closed = {name for name, (mode, *_) in snapshot(prefix).items() if mode & wanted[name] != wanted[name]}
    assert closed == own
    assert prefix.stat().st_mode & 0o777 == 0o755
    assert not plan_of(options(conf)).remarks


def test_an_upgrade_that_fails_leaves_the_release_before(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place(conf)
    before = snapshot(tmp_path)
    for module in (install, plan):
        monkeypatch.setattr(module, "__version__", "9.9.9")

    def fail(_: object) -> None:
        raise UserError("it cannot compile")

    with pytest.raises(UserError, match="it cannot compile; everything is as it was"):
        put_in_place(conf, fail)
    assert snapshot(tmp_path) == before


def test_a_damaged_environment_is_made_anew(conf: Path, tmp_path: Path) -> None:
    put_in_place(conf)
    jar = written(tmp_path / "opt" / "current" / "lib" / "treadle-shim.jar", "other")
    put_in_place(conf)
    assert jar.read_text() == "jar"
    assert [path.name for path in (tmp_path / "opt").glob(".*")] == []


def test_what_an_administrator_changed_since_stays(conf: Path, tmp_path: Path) -> None:
    put_in_place(conf)
    site, script = conf / "yarn-site.xml", conf / "yarn-env.sh"
    site.write_bytes(site.read_bytes().replace(b"Ask Ann", b"Ask Bob"))
    enforce(conf)
    script.write_bytes(script.read_bytes() + b"export MORE=1\n")
    yaml = written(tmp_path / "opt" / "etc" / "treadle.yaml", "seed: 3\n")
    said = take_out(conf)
    assert site.read_bytes() == SITE.replace(b"Ask Ann", b"Ask Bob")
    assert script.read_bytes() == ENV + b"export MORE=1\n"
    assert yaml.read_text() == "seed: 3\n"
    assert f"{site} was edited since: only Treadle's own lines are taken out" in said
    assert f"{conf}/treadle-site.xml was edited since: it goes, for nothing includes it any more" in said
    assert not (conf / "treadle-site.xml").exists()
    assert f"{yaml} was edited since: it stays" in said
    assert (conf / "yarn-site.xml.treadle-20261123-073000").read_bytes() == SITE


def enforce(conf: Path) -> None:
    own = conf / "treadle-site.xml"
    own.write_bytes(own.read_bytes().replace(b"observe_only", b"enforce"))


def test_the_mode_alone_changed_gives_the_files_of_before(conf: Path) -> None:
    put_in_place(conf)
    enforce(conf)
    take_out(conf)
    assert (conf / "yarn-site.xml").read_bytes() == SITE
    assert sorted(path.name for path in conf.iterdir()) == ["capacity-scheduler.xml", "yarn-env.sh", "yarn-site.xml"]


@pytest.mark.parametrize("name", ["fair.FairScheduler", "fifo.FifoScheduler", "mine.Scheduler", "${scheduler}"])
def test_another_scheduler_is_refused_with_the_line(name: str, conf: Path, tmp_path: Path) -> None:
    entry = f"<property><name>{CLASS_KEY}</name><value>{name}</value></property>\n</configuration>".encode()
    (conf / "yarn-site.xml").write_bytes(SITE.replace(b"</configuration>", entry))
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=r"yarn-site\.xml:5: .* CapacityScheduler alone: move the cluster to it first"):
        put_in_place(conf)
    assert snapshot(tmp_path) == before


def test_what_is_set_already_stays(conf: Path, tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.yaml", "seed: 3\n")
    more = {"mode": "enforce", "config.file": str(mine), "python.command": "/usr/local/bin/treadle"}
    entries = "".join(
        f"<property><name>yarn.scheduler.treadle.{key}</name><value>{value}</value></property>\n"
        for key, value in more.items()
    )
    site = SITE.replace(b"</configuration>", entries.encode() + b"</configuration>")
    (conf / "yarn-site.xml").write_bytes(site)
    put_in_place(conf)
    found = values(conf)
    assert found["yarn.scheduler.treadle.mode"] == "enforce"
    assert found["yarn.scheduler.treadle.config.file"] == str(mine)
    assert found["yarn.scheduler.treadle.python.command"].startswith(str(tmp_path / "opt"))
    assert not (tmp_path / "opt" / "etc").exists()
    take_out(conf)
    assert (conf / "yarn-site.xml").read_bytes() == site


def test_a_value_that_hadoop_would_use_instead_is_refused_with_its_line(conf: Path, tmp_path: Path) -> None:
    entry = f"<property><name>{CLASS_KEY}</name><value/>{{}}</property>\n"
    (conf / "yarn-site.xml").write_bytes(
        SITE.replace(b"</configuration>", f"{entry.format('<final>true</final>')}</configuration>".encode())
    )
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=rf"yarn-site\.xml:5: {CLASS_KEY} is final and is ''; make it '{CLASS}' there"):
        put_in_place(conf)
    assert snapshot(tmp_path) == before
    later = f"{INCLUDE}\n{entry.format('')}</configuration>".encode()
    (conf / "yarn-site.xml").write_bytes(SITE.replace(b"</configuration>", later))
    with pytest.raises(UserError, match=r"yarn-site\.xml:6: .* comes after treadle-site\.xml and is ''"):
        put_in_place(conf)


def test_a_file_of_settings_that_was_there_comes_back(conf: Path, tmp_path: Path) -> None:
    written(
        conf / "treadle-site.xml",
        "<configuration><property><name>yarn.scheduler.treadle.tick-ms</name><value>&#228;</value>"
        "<final>true</final></property>"
        "</configuration>",
    )
    before = snapshot(tmp_path)
    put_in_place(conf)
    assert values(conf)["yarn.scheduler.treadle.tick-ms"] == "ä"
    assert plan.settings_in(conf)["yarn.scheduler.treadle.tick-ms"].final
    take_out(conf)
    assert snapshot(tmp_path) == before


def test_a_link_in_place_of_the_file_of_settings_is_refused(conf: Path, tmp_path: Path) -> None:
    (conf / "treadle-site.xml").symlink_to(tmp_path / "elsewhere.xml")
    with pytest.raises(UserError, match=r"treadle-site\.xml is a link"):
        put_in_place(conf)


def test_a_link_to_the_file_stays_one(conf: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.xml"
    (conf / "yarn-site.xml").rename(real)
    (conf / "yarn-site.xml").symlink_to(real)
    put_in_place(conf)
    assert (conf / "yarn-site.xml").is_symlink()
    assert INCLUDE.encode() in real.read_bytes()
    assert values(conf)[CLASS_KEY] == CLASS, "by the folder of the link, as Hadoop finds it"
    take_out(conf)
    assert real.read_bytes() == SITE


def test_without_a_yarn_env_one_is_made_and_goes_again(conf: Path, tmp_path: Path) -> None:
    (conf / "yarn-env.sh").unlink()
    before = snapshot(tmp_path)
    put_in_place(conf)
    assert (conf / "yarn-env.sh").is_file()
    take_out(conf)
    assert snapshot(tmp_path) == before


def class_path(conf: Path, *words: str, hadoop: bool = True, before: str = "") -> str:
    """Return what yarn-env.sh makes of HADOOP_CLASSPATH in Hadoop's script with these words."""
    params = f"HADOOP_USER_PARAMS=({' '.join(words)}); " if hadoop else ""
    script = f'{params}. "{conf}/yarn-env.sh"; echo "$HADOOP_CLASSPATH"'
    environment = {"PATH": os.environ["PATH"], **({"HADOOP_CLASSPATH": before} if before else {})}
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def test_the_jars_are_on_the_class_path_of_the_resource_manager_alone(conf: Path, tmp_path: Path) -> None:
    put_in_place(conf)
    lib = f"{tmp_path}/opt/{treadle.__version__}/lib"
    jars = f"{lib}/treadle-shim.jar:{lib}/treadle-requirements.jar"
    assert class_path(conf, "--daemon", "start", "resourcemanager") == jars
    assert class_path(conf, "resourcemanager", before="/a:/b") == f"{jars}:/a:/b"
    assert class_path(conf, "--daemon", "start", "nodemanager") == ""
    assert class_path(conf, hadoop=False) == jars


def test_a_unit_is_written_with_the_release_and_never_over_anothers(conf: Path, tmp_path: Path) -> None:
    units = tmp_path / "units"
    units.mkdir()
    before = snapshot(tmp_path)
    put_in_place(conf, systemd=units)
    text = (units / "treadle-sidecar.service").read_text()
    command = f"ExecStart={tmp_path}/opt/{treadle.__version__}/bin/treadle sidecar run --external"
    assert command in text
    assert f"--config {tmp_path}/opt/etc/treadle.yaml" in text
    assert f"\nUser={getpass.getuser()}\n" in text
    assert f"\nReadWritePaths=-{tmp_path}/opt/kernels\n" in text, "the system is read-only for it"
    assert "treadle-link" not in text, "the user of the ResourceManager needs no group"
    assert sorted(path.name for path in units.iterdir()) == ["treadle-sidecar.service"]
    take_out(conf)
    assert snapshot(tmp_path) == before
    (units / "treadle-sidecar.service").write_text("[Service]\n")
    planned = plan_of(options(conf, systemd=units))
    assert any("not Treadle's: left as it is" in line for line in planned.remarks)


def test_while_something_runs_from_it_the_environment_stays(conf: Path, tmp_path: Path) -> None:
    put_in_place(conf)
    removal = plan_removal(tmp_path / "opt", lambda _: ["17 (java, of yarn)"])
    assert not remove(removal, nothing).is_done
    assert (conf / "yarn-site.xml").read_bytes() == SITE
    assert (tmp_path / "opt" / "current" / "bin" / "treadle").is_file()
    take_out(conf)
    assert not (tmp_path / "opt").exists()


def test_a_process_that_runs_from_the_prefix_is_seen(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "600"], executable="/bin/sleep")
    # without a child of its own, which has the same command line until it is another program
    script = subprocess.Popen(["sh", "-c", f"read line; : {tmp_path}/opt/x"], stdin=subprocess.PIPE)
    try:
        found = install.processes_below(tmp_path / "opt")
        assert [line.split()[0] for line in found] == [str(script.pid)]
    finally:
        for each in (child, script):
            each.kill()
            each.communicate()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"config": Path("relative.yaml")}, "give an absolute path of plain letters"),
        ({"systemd": Path("/no/such/folder")}, "is not a folder"),
        ({"config": Path("/etc")}, r"is not a file; name a treadle\.yaml"),
    ],
)
def test_paths_that_cannot_be_used_are_refused(more: dict[str, object], said: str, conf: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=said):
        plan_of(options(conf, **more))
    assert snapshot(tmp_path) == before


def test_a_prefix_that_others_may_write_to_is_refused(conf: Path, tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt").chmod(0o777)
    with pytest.raises(UserError, match="may be written by everybody; take that right away"):
        put_in_place(conf)


def test_two_installations_at_a_time_are_refused(conf: Path) -> None:
    def second(_: Plan) -> None:
        put_in_place(conf)

    with pytest.raises(UserError, match=r"another installation below .* is under way"):
        put_in_place(conf, second)


def test_what_cannot_be_put_back_is_reported(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[Path]()

    def full(path: Path, data: bytes, *more: object) -> None:
        written.append(path)
        if path.name == "yarn-site.xml" or written.count(conf / "yarn-env.sh") == 2:
            raise OSError(28, "No space left on device", str(path))
        put(path, data, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(install, "put", full)
    with pytest.raises(UserError, match=r"not all of it could be taken back: .*yarn-env\.sh") as error:
        put_in_place(conf)
    assert "everything is as it was" not in str(error.value)
    assert (conf / "yarn-env.sh").read_bytes() != ENV, "that is what the text tells of"
    assert [each.read_bytes() for each in conf.glob("*.treadle-*")] == [ENV], "its copy alone is still needed"


def test_extras_that_a_resource_managers_host_has_a_use_for_are_copied_if_they_are_there() -> None:
    names = {re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower() for each in needed_distributions()}
    assert {"numba", "starlette", "uvicorn", "prometheus-client", "zstandard"} <= names
    assert names.isdisjoint({"pytest", "pyspark", "pip", "treadle"})


def test_an_installation_below_another_prefix_is_found_by_what_it_wrote(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cli: Cli
) -> None:
    units = tmp_path / "units"
    units.mkdir()
    put_in_place(conf, systemd=units)
    prefix = tmp_path / "opt"
    assert found_prefix(None, trusted=True, systemd=tmp_path) == DEFAULT_PREFIX
    assert found_prefix(conf, trusted=True, systemd=tmp_path) == prefix
    assert found_prefix(None, trusted=True, systemd=units) == prefix
    monkeypatch.setattr("sys.prefix", str(prefix / treadle.__version__))
    assert found_prefix(None, trusted=True, systemd=tmp_path) == prefix
    monkeypatch.undo()
    use_small_environment(monkeypatch)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setattr(install, "processes_below", lambda _: [])
    run(["doctor", "--hadoop-conf", str(conf), "--only", "installation"])
    assert f"in {prefix / treadle.__version__}" in " ".join(capsys.readouterr().out.split())
    said = cli(["uninstall", "--hadoop-conf", str(conf)])
    assert f"looked for below {prefix}" in said.err
    assert "uninstalled" in said.out
    assert (conf / "yarn-env.sh").read_bytes() == ENV


def test_who_runs_the_sidecar_has_to_be_named_whatever_processes_there_are(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    use_small_environment(monkeypatch)
    before = snapshot(tmp_path)
    with decoy(RESOURCE_MANAGER, str(conf), program="java"), decoy(RESOURCE_MANAGER, program="java", user=65534):
        assert "Missing option '--user'" in cli(words(conf)[:-2], 2).err
        assert snapshot(tmp_path) == before
        cli([*words(conf), "--dry-run"])


def test_the_next_release_goes_where_the_last_one_is(conf: Path, tmp_path: Path, cli: Cli) -> None:
    put_in_place(conf)
    printed = cli(["install", "--hadoop-conf", str(conf), "--user", getpass.getuser(), "--dry-run"]).out
    assert f"nothing to do: {tmp_path / 'opt' / 'current'} and" in " ".join(printed.split())


def test_only_doctor_believes_what_others_may_have_written(conf: Path, tmp_path: Path) -> None:
    put_in_place(conf)
    (tmp_path / "opt" / "installed.json").chmod(0o666)
    assert found_prefix(conf, trusted=True, systemd=tmp_path) == DEFAULT_PREFIX
    assert found_prefix(conf, trusted=False, systemd=tmp_path) == tmp_path / "opt"
    (tmp_path / "opt" / "installed.json").unlink()
    assert found_prefix(conf, trusted=False, systemd=tmp_path) == DEFAULT_PREFIX


def test_the_sidecars_user_is_known_by_a_record_that_only_root_and_this_user_may_write(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place(conf)
    prefix, record = tmp_path / "opt", tmp_path / "opt" / "installed.json"
    assert installed_user(prefix) == getpass.getuser()
    plain = json.loads(record.read_text())
    record.write_text(json.dumps(plain | {"user": "nobody"}))
    monkeypatch.setattr("sys.prefix", str(prefix / treadle.__version__))
    own = {0, os.geteuid()}
    assert sidecar_users() == own | {pwd.getpwnam("nobody").pw_uid}
    record.write_text(json.dumps(plain | {"user": "no such user"}))
    assert sidecar_users() == own
    record.write_text(json.dumps(plain | {"user": "nobody"}))
    record.chmod(0o666)
    assert installed_user(prefix) == ""
    assert sidecar_users() == own


def test_the_jar_of_a_yarn_env_is_found_however_its_path_is_written() -> None:
    for jar in (Path("/opt/treadle/1/lib/treadle-shim.jar"), Path("/a b/it's/1/lib/treadle-shim.jar")):
        script = with_jar(ENV, jar)
        assert jar_in(script) == jar
        assert f":{jar.with_name(REQUIREMENTS)}".encode() in script.replace(b"'\"'\"'", b"'")
    assert jar_in(ENV) is None


def test_what_somebody_made_of_yarn_env_leads_nowhere(conf: Path, tmp_path: Path) -> None:
    lines = with_jar(ENV, Path("/opt/treadle/1/lib/treadle-shim.jar"))
    assert jar_in(lines.replace(b"CLASSPATH=/opt", b"CLASSPATH='/opt")) is None
    for jar in (Path("/", "long" * 100, "1/lib/treadle-shim.jar"), Path("/treadle-shim.jar")):
        (conf / "yarn-env.sh").write_bytes(with_jar(ENV, jar))
        assert found_prefix(conf, trusted=False, systemd=tmp_path) == DEFAULT_PREFIX

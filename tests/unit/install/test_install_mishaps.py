"""A failing `treadle install` or `uninstall` reports it, and leaves all as it was or names what it left."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.installing import (
    SITE,
    nothing,
    options,
    put_in_place,
    snapshot,
    take_out,
    values,
)

import treadle
from treadle.admin import install
from treadle.admin.environment import RECORD
from treadle.admin.install import plan_of, plan_removal
from treadle.admin.plan import CLASS, CLASS_KEY, Manifest, Options, _unit, content_of, put
from treadle.admin.site_files import BYTES_MAX
from treadle.cli.main import run
from treadle.errors import UserError
from treadle.files import write_whole


def test_after_a_treadle_yaml_was_kept_it_can_be_installed_again(conf: Path, tmp_path: Path) -> None:
    put_in_place(conf)
    prefix = tmp_path / "opt"
    yaml = prefix / "etc" / "treadle.yaml"
    edited = yaml.read_text() + "seed: 3\n"
    yaml.write_text(edited)
    take_out(conf)
    assert not (prefix / "kernels").exists()
    assert plan_of(options(conf)).makes_kernels
    put_in_place(conf)
    assert (prefix / "kernels").stat().st_mode & 0o777 == 0o700
    assert (prefix / "etc" / ".treadle.yaml.state").stat().st_mode & 0o777 == 0o700
    assert yaml.read_text() == edited
    assert plan_of(options(conf)).is_empty
    take_out(conf)
    assert sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*")) == ["etc", "etc/treadle.yaml"]


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def nothing_ignored() -> Iterator[None]:
    """Signals do what they do in a terminal: in a shell's background, and below nohup, some are ignored."""
    before = [signal.signal(each, signal.default_int_handler) for each in SIGNALS]
    yield
    for each, handler in zip(SIGNALS, before, strict=True):
        signal.signal(each, signal.SIG_DFL if handler is None else handler)


@pytest.mark.usefixtures("nothing_ignored")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("step", ["warm-up", "make_environment", "put yarn-site.xml"])
def test_a_signal_ends_it_and_everything_is_as_it_was(
    step: str,
    number: signal.Signals,
    conf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Cli,
) -> None:
    handlers = [signal.getsignal(each) for each in SIGNALS]
    before = snapshot(tmp_path)
    unlink = Path.unlink

    def again(path: Path, missing_ok: bool = False) -> None:
        os.kill(os.getpid(), number)  # while everything is put back
        unlink(path, missing_ok)

    def strike(*_: object) -> None:
        monkeypatch.setattr(Path, "unlink", again)
        os.kill(os.getpid(), number)
        if step != "put yarn-site.xml":
            pytest.fail("it went on")

    if step.startswith("put "):

        def written(path: Path, data: bytes, *more: object) -> None:
            if path.name == step.removeprefix("put ") and b"treadle" in data:
                strike()
            put(path, data, *more)  # type: ignore[arg-type]

        monkeypatch.setattr(install, "put", written)
    monkeypatch.setattr(install, "compile_kernels", strike if step == "warm-up" else nothing)
    if step == "make_environment":
        monkeypatch.setattr(install, step, strike)
    words = ["install", "--hadoop-conf", str(conf), "--prefix", str(tmp_path / "opt"), "--user", getpass.getuser()]
    assert f"stopped by {number.name}; everything is as it was" in cli(words, 128 + number).err
    assert snapshot(tmp_path) == before
    assert [signal.getsignal(each) for each in SIGNALS] == handlers


@pytest.mark.usefixtures("nothing_ignored")
def test_a_signal_that_comes_when_all_is_done_changes_nothing(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(install, "compile_kernels", nothing)
    save = Manifest.save

    def late(manifest: Manifest) -> None:
        save(manifest)
        if b"treadle-site.xml" in (conf / "yarn-site.xml").read_bytes():
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Manifest, "save", late)
    words = ["install", "--hadoop-conf", str(conf), "--prefix", str(tmp_path / "opt"), "--user", getpass.getuser()]
    assert "installed. Next" in cli(words).out
    assert values(conf)[CLASS_KEY] == CLASS
    assert not list((tmp_path / "opt").glob(".*"))


def test_what_a_killed_installation_left_goes_with_the_rest(conf: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    put_in_place(conf)
    (tmp_path / "opt" / ".lock").touch()
    (tmp_path / "opt" / ".new-x" / "env").mkdir(parents=True)
    take_out(conf)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_release_that_cannot_be_removed_is_named_and_the_rest_can_be_done_again(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, is_begun: bool
) -> None:
    before = snapshot(tmp_path)
    put_in_place(conf)
    release = tmp_path / "opt" / treadle.__version__
    real = shutil.rmtree

    def busy(folder: Path, *more: object, **named: object) -> None:
        if folder.name.endswith(release.name):
            if is_begun:
                (folder / RECORD).unlink()
            raise OSError(16, "Device or resource busy", str(folder))
        real(folder, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "rmtree", busy)
    monkeypatch.setattr(install, "processes_below", lambda _: [])
    said = cli(["uninstall", "--prefix", str(tmp_path / "opt")], 2).err
    assert f"{release.name}: Device or resource busy" in said
    assert "run treadle uninstall again" in said
    assert (conf / "yarn-site.xml").read_bytes() == SITE
    monkeypatch.setattr(shutil, "rmtree", real)
    assert run(["uninstall", "--prefix", str(tmp_path / "opt")]) == 0
    assert snapshot(tmp_path) == before


SECRET = b"<property><name>store.password</name><value>hunter2</value></property>"


@pytest.mark.parametrize(
    "data",
    [
        SITE.replace(b"</configuration>", SECRET + b"\n</configuration>"),
        SITE.replace(b"\n</configuration>", SECRET + b"</configuration>"),
        b"<configuration>" + SECRET + b"</configuration>",
        b'<configuration><property name="store.password" value="hunter2"/></configuration>',
        b"<configuration><!-- hunter2 --><property><name>%b</name><value></value></property>%b</configuration>"
        % (CLASS_KEY.encode(), SECRET),
    ],
)
def test_a_diff_shows_nobodys_secret(data: bytes, conf: Path, tmp_path: Path) -> None:
    (conf / "yarn-site.xml").write_bytes(data)
    planned = plan_of(options(conf))
    shown = "\n".join(line for each in planned.changes for line in each.diff())
    assert "hunter2" not in shown
    assert CLASS in shown
    put_in_place(conf)
    shown = "\n".join(line for each in plan_removal(tmp_path / "opt", lambda _: []).files for line in each.diff())
    assert "hunter2" not in shown
    assert CLASS in shown


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("yarn-env.sh", "cat <<X\n", r"yarn-env\.sh cannot be read by bash as it is: .*here-document"),
        ("yarn-env.sh", "A='never ends\n", "cannot be read by bash as it is"),
        ("yarn-site.xml", "", r"yarn-site\.xml: No such file or directory; is its folder"),
        ("yarn-site.xml", "-> yarn-site.xml", r"yarn-site\.xml: .*(loop|levels of symbolic links)"),
    ],
    ids=["here-document", "open end", "missing", "circle"],
)
def test_a_file_of_hadoop_s_that_cannot_be_used_is_refused(
    name: str, content: str, said: str, conf: Path, tmp_path: Path
) -> None:
    (conf / name).unlink()
    if content.startswith("-> "):
        (conf / name).symlink_to(content[3:])
    elif content:
        (conf / name).write_text(content)
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=said):
        put_in_place(conf)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("kind", ["below a file", "a file", "a circle", "a broken link"])
def test_a_prefix_that_can_be_no_folder_is_refused_with_what_to_do(kind: str, conf: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "opt"
    if kind in {"below a file", "a file"}:
        prefix.touch()
    else:
        prefix.symlink_to("opt" if kind == "a circle" else "nowhere")
    chosen = Options(conf, getpass.getuser(), prefix / "below" if kind == "below a file" else prefix)
    with pytest.raises(UserError, match=f"{prefix} is not a folder; choose another --prefix"):
        plan_of(chosen)


def test_a_file_that_cannot_be_written_is_called_by_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        write_whole(tmp_path / "no" / "file", "text")
    assert error.value.filename == str(tmp_path / "no" / "file")


def test_a_unit_of_the_resource_managers_user_says_nothing_of_another(conf: Path, tmp_path: Path) -> None:
    text = _unit(options(conf, systemd=tmp_path), tmp_path / "treadle.yaml")
    assert "user of its own" not in text
    assert "can neither read the ResourceManager's keytab nor act as its user" not in text
    assert f"# Treadle's sidecar as {getpass.getuser()}, the ResourceManager's user" in text
    assert f"\nUser={getpass.getuser()}\n" in text


def test_the_last_word_says_whether_something_is_left(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(install, "processes_below", lambda _: [])
    put_in_place(conf)
    printed = cli(["uninstall", "--prefix", str(tmp_path / "opt")]).out
    assert printed.splitlines()[-1].startswith("uninstalled. A ResourceManager")
    put_in_place(conf)
    site = conf / "yarn-site.xml"
    site.write_bytes(site.read_bytes().replace(b"Ask Ann", b"Ask Bob"))
    (tmp_path / "opt" / "etc" / "treadle.yaml").write_text("seed: 3\n")
    said = "".join(reversed(cli(["uninstall", "--prefix", str(tmp_path / "opt")])))
    assert f"took Treadle's lines out of {site}" in said
    assert f"restored {site}" not in said
    assert said.splitlines()[-1].startswith("uninstalled, but for what is named above as left")


def test_a_dry_run_tells_what_keeps_the_environment(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    put_in_place(conf)
    monkeypatch.setattr(install, "processes_below", lambda _: ["17 (java, of yarn)"])
    said = cli(["uninstall", "--prefix", str(tmp_path / "opt"), "--dry-run"]).out
    assert "17 (java, of yarn)" in said
    assert json.loads((tmp_path / "opt" / "installed.json").read_text())["files"]


def test_a_prefix_that_cannot_be_locked_is_reported_by_uninstall(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(install, "processes_below", lambda _: [])
    put_in_place(conf)
    (tmp_path / "opt" / ".lock").mkdir()
    before = snapshot(tmp_path)
    error = cli(["uninstall", "--prefix", str(tmp_path / "opt")], 2).err
    assert f"{tmp_path}/opt/.lock: Is a directory; run treadle uninstall as root" in error
    assert snapshot(tmp_path) == before


def test_what_others_may_write_does_not_say_what_uninstall_removes(conf: Path, tmp_path: Path, cli: Cli) -> None:
    put_in_place(conf)
    (tmp_path / "opt" / "installed.json").chmod(0o666)
    before = snapshot(tmp_path)
    error = cli(["uninstall", "--prefix", str(tmp_path / "opt")], 2).err
    assert "installed.json may be written by everybody" in error
    assert snapshot(tmp_path) == before


def test_a_file_of_settings_has_a_bound(tmp_path: Path) -> None:
    with (tmp_path / "yarn-env.sh").open("wb") as file:
        file.truncate(BYTES_MAX + 1)
    with pytest.raises(UserError, match="too many for a file of settings"):
        content_of(tmp_path / "yarn-env.sh")

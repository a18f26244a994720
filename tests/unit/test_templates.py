"""Whoever has only the wheel has the files that the administrator's guide tells of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.files import written

from treadle import __version__, shipped
from treadle.errors import UserError, install_extra
from treadle.history import process
from treadle.history.reader import LIMITS
from treadle.live import plan_child
from treadle.processes import LISTENER

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_gets_every_template_of_conf() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    included = {ROOT / name: Path(place) for name, place in wheel["force-include"].items()}
    files = [file for file in (ROOT / "conf").rglob("*") if file.is_file() and "policies" not in file.parts]
    assert len(files) == 9
    missing = [file for file in files if not any(file == name or name in file.parents for name in included)]
    assert missing == []
    for name, place in included.items():
        assert place == Path("treadle/conf") / name.relative_to(ROOT / "conf")


def test_the_command_says_where_they_are(cli: Cli) -> None:
    folder = Path(cli(["paths", "conf"]).out.strip())
    assert (folder / "yarn-site-treadle.xml").is_file()
    assert (folder / "systemd" / "treadle-sidecar.service").is_file()


def test_a_path_is_printed_by_its_name_and_no_other_name_is_known(cli: Cli) -> None:
    assert Path(cli(["paths", "policies"]).out.strip()) == shipped.policies_folder()
    assert json.loads(cli(["paths", "conf", "-o", "json"]).out) == {"conf": str(shipped.templates())}
    assert "'polices' is not one of conf, policies" in cli(["paths", "polices"], 2).err


def test_those_of_the_package_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "python" / "treadle"
    monkeypatch.setattr(shipped, "_PACKAGE", package)
    with pytest.raises(UserError, match="carries no templates"):
        shipped.templates()
    for folder in (tmp_path / "conf", package / "conf"):
        folder.mkdir(parents=True)
        (folder / "yarn-site-treadle.xml").touch()
        assert shipped.templates() == folder


# Extras are installed from the project's own wheel: an index may hold another project under its name.

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
BY_INDEX = re.compile(r"\btreadle\[\w+\]")
WHEEL = re.compile(r"treadle-([\d.]+)-py3-none-any\.whl(?:\[(\w+)\])?")


def test_no_text_installs_an_extra_by_the_name_in_an_index() -> None:
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "python").rglob("*.py")]
    assert [file.relative_to(ROOT).as_posix() for file in files if BY_INDEX.search(file.read_text("utf-8"))] == []


def test_pages_name_wheels_of_this_version_and_extras_that_exist() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = [found.groups() for page in pages for found in WHEEL.finditer(page.read_text("utf-8"))]
    assert len(named) > 5
    assert {version for version, _ in named} == {__version__}
    assert {extra for _, extra in named if extra} <= EXTRAS.keys()


def test_every_message_names_an_extra_that_exists() -> None:
    used = {
        extra
        for file in (ROOT / "python").rglob("*.py")
        for extra in re.findall(r"install_extra\(['\"](\w+)['\"]\)", file.read_text("utf-8"))
    }
    assert len(used) > 5
    assert used <= EXTRAS.keys()
    assert install_extra("record") == f"pip install 'treadle-{__version__}-py3-none-any.whl[record]'"


# The units of conf/systemd: systemd takes them, they give no privilege away, and their commands exist.

UNITS = Path(__file__).resolve().parents[2] / "conf" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
COMMAND = "/opt/treadle/bin/treadle"
MODULE = "/opt/treadle/bin/python -P -m "
CONFINED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallFilter": "@system-service",
    "LimitCORE": "0",
}
USERS = {
    "treadle-sidecar": "treadle",
    "treadle-import": "treadle",
    "treadle-plans@": "treadle-plans",
    "treadle-histories@": "treadle-histories",
}
EXPOSURE_MAX = 20
"""`systemd-analyze security` in tenths; a unit without any of its settings has 96."""


def settings(unit: Path) -> dict[str, str]:
    lines = [line for line in unit.read_text().splitlines() if re.match(r"[A-Z]\w*=", line)]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_service_is_confined_and_bounded(unit: Path) -> None:
    found = settings(unit)
    assert {name: found.get(name) for name in CONFINED} == CONFINED
    assert found["User"] == USERS[unit.stem]
    assert {"MemoryMax", "TasksMax", "RestrictAddressFamilies"} <= set(found)
    assert "keytab" in found["InaccessiblePaths"]


def test_histories_are_taken_in_without_the_sidecars_secret() -> None:
    sidecar, importing = (settings(UNITS / f"treadle-{name}.service") for name in ("sidecar", "import"))
    secret = Path(sidecar["ExecStart"].split("--connection-file ")[1].split()[0])
    assert str(secret.parent) in [path.lstrip("-") for path in importing["InaccessiblePaths"].split()]
    assert "treadle-link" not in importing["SupplementaryGroups"].split()


def test_the_plan_listener_sees_nothing_of_the_sidecars_but_its_socket() -> None:
    sidecar, listener, socket = (
        settings(UNITS / f"treadle-{name}") for name in ("sidecar.service", "plans@.service", "plans.socket")
    )
    hidden = [path.lstrip("-") for path in listener["InaccessiblePaths"].split()]
    assert {"/run/treadle", "/var/lib/treadle", "/etc/treadle"} <= set(hidden)
    assert "/etc/treadle/" in sidecar["ExecStart"]
    assert "SupplementaryGroups" not in listener
    streams = [listener[f"Standard{name}"] for name in ("Input", "Output", "Error")]
    assert streams == ["socket", "socket", "journal"]
    assert (socket["SocketUser"], socket["SocketMode"], socket["SocketGroup"]) == ("root", "0660", sidecar["Group"])
    assert socket["Accept"] == "yes"


def test_who_reads_histories_sees_neither_the_store_nor_the_network() -> None:
    importing, reader, socket = (
        settings(UNITS / f"treadle-{name}") for name in ("import.service", "histories@.service", "histories.socket")
    )
    store = Path(importing["ExecStart"].split("--store ")[1].split()[0])
    hidden = [path.lstrip("-") for path in reader["InaccessiblePaths"].split()]
    assert {str(store.parent), "/run/treadle", "/etc/treadle"} <= set(hidden)
    assert (reader["PrivateNetwork"], reader["RestrictAddressFamilies"]) == ("yes", "AF_UNIX")
    assert importing["ExecStart"].split("--reader ")[1].split()[0] == socket["ListenStream"]
    assert importing["Requires"] == "treadle-histories.socket"
    assert (socket["SocketUser"], socket["SocketMode"], socket["SocketGroup"]) == ("root", "0660", importing["Group"])
    assert (socket["Accept"], reader["StandardInput"], reader["StandardOutput"]) == ("yes", "socket", "socket")


def test_the_plan_listener_gives_way() -> None:
    listener = settings(UNITS / "treadle-plans@.service")
    assert (listener["Nice"], listener["CPUSchedulingPolicy"]) == (str(LISTENER), "batch")
    assert int(listener["CPUWeight"]) < 100


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_the_command_of_a_service_exists(unit: Path, cli: Cli) -> None:
    started = settings(unit)["ExecStart"]
    if started.startswith(MODULE):
        module, *limits = started.removeprefix(MODULE).split()
        assert (module, limits) in [
            (plan_child.__name__, []),
            (process.__name__, [str(LIMITS.memory_mb), str(LIMITS.cpu_s)]),
        ]
        return
    command, *arguments = started.split()
    assert command == COMMAND
    words = [word for word in arguments if re.fullmatch(r"[a-z]+", word)]
    shown = cli([*words, "--help"]).out
    assert [word for word in arguments if word.startswith("--") and word not in shown] == []


def _runnable(unit: Path) -> str:
    return re.sub(r"/opt/treadle/bin/\w+", sys.executable, unit.read_text())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_systemd_takes_a_service_and_finds_it_little_exposed(unit: Path, tmp_path: Path) -> None:
    here = written(tmp_path / unit.name, _runnable(unit))
    for other in (*UNITS.glob("*.socket"), *UNITS.glob(f"{unit.stem}.timer")):
        shutil.copy(other, tmp_path)
        for started in UNITS.glob(f"{other.stem}*.service"):
            if started.name != unit.name:
                (tmp_path / started.name).write_text(_runnable(started))
    for file in tmp_path.iterdir():
        verified = subprocess.run(["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True)
        assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(here)]
    exposed = subprocess.run(command, capture_output=True, text=True)
    assert exposed.returncode == 0, exposed.stdout + exposed.stderr

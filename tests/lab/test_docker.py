"""The image and the compose file agree with each other and with the package."""

from __future__ import annotations

import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.optional import present

from treadle_lab.minicluster.site import read_site

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
PROFILES = sorted(file for file in (DOCKER / "profiles").iterdir() if file.is_dir())


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return loaded


def test_every_service_has_a_limit_of_memory_and_those_that_serve_say_how_they_are(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert all("mem_limit" in service for service in services.values())
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"rm-host", "job"}


def test_an_unknown_role_is_refused() -> None:
    done = subprocess.run(["sh", str(DOCKER / "start.sh"), "datanode"], capture_output=True, text=True)
    # without a java it ends even sooner
    assert done.returncode != 0
    assert "which role?" in done.stderr


def test_an_unknown_profile_is_refused_and_those_there_are_are_named() -> None:
    done = subprocess.run([str(DOCKER / "test.sh"), "windows"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "'windows'" in done.stderr
    assert " ".join(sorted(file.name for file in PROFILES)) == " ".join(sorted(named(done.stderr)))


def named(refusal: str) -> list[str]:
    """Return the profiles that a refusal names."""
    found = re.search(r"there are ([a-z ]+), and all", refusal)
    assert found is not None, refusal
    return found[1].split()


@pytest.mark.parametrize("profile", [file.name for file in PROFILES] + ["all"])
def test_every_profile_is_known(profile: str) -> None:
    done = subprocess.run([str(DOCKER / "test.sh"), "--check", profile], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def of_profile(folder: Path, what: str) -> list[str]:
    """Return the words of a list in a profile's script."""
    found = re.search(rf"^{what}=\((.*)\)$", (folder / "profile.sh").read_text(), re.MULTILINE)
    return found[1].split() if found else []


@pytest.mark.parametrize("folder", PROFILES, ids=lambda folder: folder.name)
def test_a_profile_has_tests_and_starts_services_that_there_are(folder: Path, compose: dict[str, Any]) -> None:
    own = folder / "compose.yaml"
    more = yaml.safe_load(own.read_text())["services"] if own.exists() else {}
    assert set(of_profile(folder, "services")) <= {*compose["services"], *more}
    assert all((ROOT / file).is_file() for file in of_profile(folder, "tests"))
    assert of_profile(folder, "tests")
    roles = set(re.findall(r"^  (\w+)\)", (DOCKER / "start.sh").read_text(), re.MULTILINE)) | {"kdc"}
    for name in set(more) - set(compose["services"]) - {"client"}:
        assert more[name]["command"] in roles, name
        assert "mem_limit" in more[name], name
        assert "user" not in more[name], name


@pytest.mark.parametrize("file", sorted(DOCKER.glob("profiles/*/conf/*.xml")), ids=lambda file: file.parts[-3:])
def test_a_profile_s_entries_are_laid_over_the_common_ones(file: Path, tmp_path: Path) -> None:
    runpy.run_path(str(DOCKER / "sites.py"))["main"](DOCKER / "conf", file.parent, tmp_path / "conf")
    common = DOCKER / "conf" / file.name
    expected = {**(read_site(common) if common.exists() else {}), **read_site(file)}
    assert read_site(tmp_path / "conf" / file.name) == expected
    assert (tmp_path / "conf" / "racks.sh").read_text() == (DOCKER / "conf" / "racks.sh").read_text()


def test_the_wheels_are_for_the_image_s_python() -> None:
    version = re.search(r"^python=(\S+)", (DOCKER / "build.sh").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert version is not None
    assert version[1] == "3.11"
    assert project["requires-python"] == ">=3.11"


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, each with its arguments on one line."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def test_no_role_runs_as_root(compose: dict[str, Any]) -> None:
    found = instructions()
    users = [argument for name, argument in found if name == "USER"]
    assert users == ["hadoop"]
    after = found[found.index(("USER", "hadoop")) + 1 :]
    assert after[0] == ("RUN", "treadle sidecar warm-up"), "what is compiled belongs to who runs it"
    assert [name for name, _ in after[1:]] == ["ENTRYPOINT"], "what is installed belongs to root"
    assert all("user" not in service for service in compose["services"].values())


def test_the_user_of_the_image_owns_what_the_roles_write_to(compose: dict[str, Any]) -> None:
    runs = " ".join(" ".join(argument.split()) for name, argument in instructions() if name == "RUN")
    home = present(re.search(r"useradd .*?--home-dir (\S+) --create-home \S+ \S+ hadoop\b", runs))
    made = {
        folder: mode
        for mode, folders in re.findall(r"install -d (?:-m (\d+) )?-o hadoop -g hadoop ([^&]+)", runs)
        for folder in folders.split()
    }
    mounted = {volume.partition(":")[2] for each in compose["services"].values() for volume in each.get("volumes", [])}
    assert mounted <= set(made)
    assert made["/run/treadle"] == "0700"
    keys = (
        "hadoop.tmp.dir",
        "yarn.nodemanager.local-dirs",
        "yarn.nodemanager.log-dirs",
        "dfs.namenode.name.dir",
        "dfs.datanode.data.dir",
        "yarn.resourcemanager.fs.state-store.uri",
    )
    sites = {}
    for name in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml"):
        sites.update(read_site(DOCKER / "conf" / name))
    for key in keys:
        assert any(sites[key].removeprefix("file://").startswith(f"{folder}/") for folder in (home[1], *mounted)), key

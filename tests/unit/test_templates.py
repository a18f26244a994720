"""Whoever has only the wheel has the files that the administrator's guide tells of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from treadle.admin import install
from treadle.cli.main import run
from treadle.errors import UserError

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


def test_the_command_says_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conf"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert (folder / "yarn-site-treadle.xml").is_file()
    assert (folder / "systemd" / "treadle-sidecar.service").is_file()


def test_those_of_the_package_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "python" / "treadle"
    monkeypatch.setattr(install, "_PACKAGE", package)
    with pytest.raises(UserError, match="carries no templates"):
        install.templates()
    for folder in (tmp_path / "conf", package / "conf"):
        folder.mkdir(parents=True)
        (folder / "yarn-site-treadle.xml").touch()
        assert install.templates() == folder

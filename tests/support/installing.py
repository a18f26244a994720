"""Installations into a folder of Hadoop's settings, with an environment of a script alone."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from treadle.admin import install
from treadle.admin.environment import Contents
from treadle.admin.install import carry_out, plan_of, plan_removal, remove
from treadle.admin.plan import Options, Plan, settings_in

SITE = b"""<?xml version="1.0"?>
<!-- Ours. Ask Ann. -->
<configuration>
  <property><name>yarn.resourcemanager.hostname</name><value>rm</value></property>
</configuration>"""
ENV = b"export YARN_LOG_DIR=/var/log/yarn"
NOW = datetime(2026, 11, 23, 7, 30, tzinfo=UTC)


def contents(target: Path) -> Contents:
    return Contents({}, {"bin/treadle": f"#!/bin/sh\n# {target}\n", "lib/treadle-shim.jar": "jar"})


def use_small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install an environment of a script alone: what a real one is made of is looked at elsewhere."""
    monkeypatch.setattr(install, "running_environment", contents)
    monkeypatch.setattr(plan_of, "__defaults__", (contents,))


def conf_in(tmp_path: Path) -> Path:
    """Make a ResourceManager's folder of settings."""
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "yarn-site.xml").write_bytes(SITE)
    (folder / "yarn-site.xml").chmod(0o640)
    (folder / "yarn-env.sh").write_bytes(ENV)
    (folder / "yarn-env.sh").chmod(0o755)
    (folder / "capacity-scheduler.xml").write_text("<configuration/>")
    return folder


def options(conf: Path, **more: object) -> Options:
    return Options(conf, getpass.getuser(), conf.parent / "opt", **more)  # type: ignore[arg-type]


def nothing(_: object) -> None:
    pass


def put_in_place(conf: Path, warm_up: Callable[[Plan], None] = nothing, **more: object) -> list[str]:
    said: list[str] = []
    carry_out(plan_of(options(conf, **more)), NOW, said.append, warm_up)
    return said


def take_out(conf: Path) -> list[str]:
    said: list[str] = []
    removal = plan_removal(conf.parent / "opt", lambda _: [])
    said += [remark for each in removal.files for remark in each.remarks]
    assert remove(removal, said.append).is_done
    return said


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, bytes | str]]:
    """Return all that lies below a folder: mode, owner, group, content."""
    found: dict[str, tuple[int, int, int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        how = path.lstat()
        what = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
        found[str(path.relative_to(folder))] = (how.st_mode, how.st_uid, how.st_gid, what)
    return found


def values(conf: Path) -> dict[str, str]:
    return {name: each.value for name, each in settings_in(conf).items()}

"""A Python environment for Treadle below the prefix: a copy of the needed parts of the running one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import Final

from treadle.admin.site_files import REQUIREMENTS
from treadle.errors import UserError
from treadle.shipped import ready_made, requirements_jar, shim_jar, spark_jar, templates, tez_jar

RECORD: Final = "treadle-files.json"
"""The list of an environment's files, each with the SHA-256 of its content."""

JAR: Final = "lib/treadle-shim.jar"

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_EXTRAS: Final = {"dashboard", "encrypt", "history", "kerberos", "record"}
"""Those of Treadle's extras that a ResourceManager's host has a use for; copied if they are installed."""

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


@dataclass(frozen=True, slots=True)
class Contents:
    """Files of an environment, by their path in it."""

    files: dict[str, Path]
    written: dict[str, str]
    """Files that are made here, with their content."""

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file, except those that Python rewrites by itself (`__pycache__`).

        Raises:
            OSError: a file cannot be read.
        """
        lasting = {name: path for name, path in self.files.items() if "/__pycache__/" not in name}
        copied = {name: sha256(path.read_bytes()) for name, path in lasting.items()}
        return copied | {name: sha256(text.encode()) for name, text in self.written.items()}


def running_environment(target: Path) -> Contents:
    """Return the contents of an environment at ``target``: this package, its jars and its dependencies.

    Raises:
        UserError: a part cannot be copied.
    """
    site = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    files = {f"{site}/treadle/{path.relative_to(_PACKAGE)}": path for path in _sources(_PACKAGE)}
    for folder in ("policies", "conf", "java"):
        files = {name: path for name, path in files.items() if not name.startswith(f"{site}/treadle/{folder}/")}
    files |= {f"{site}/treadle/policies/{path.name}": path for path in ready_made().values()}
    conf = templates()
    for path in _sources(conf):
        if path.relative_to(conf).parts[0] != "policies":
            files[f"{site}/treadle/conf/{path.relative_to(conf)}"] = path
    for jar in (shim_jar(), requirements_jar(), tez_jar(), spark_jar()):
        files[f"{site}/treadle/java/{jar.name}"] = jar
    files[JAR] = shim_jar()
    files[f"lib/{REQUIREMENTS}"] = requirements_jar()
    for each in needed_distributions():
        files |= {f"{site}/{name}": path for name, path in _files_of(each)}
    return Contents(files, _written(target, site))


def needed_distributions() -> list[metadata.Distribution]:
    """Return the installed distributions that Treadle depends on, without itself, sorted by name."""
    distributions: dict[str, metadata.Distribution] = {}
    own = metadata.distribution("treadle")
    waiting = [required(line, _EXTRAS) for line in own.requires or ()]
    while waiting:
        name = waiting.pop()
        if not name or name in distributions or name == "treadle":
            continue
        try:
            distributions[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # an extra, or for another system; a missing package shows at warm-up
            continue
        waiting += [required(line) for line in distributions[name].requires or ()]
    return [distributions[name] for name in sorted(distributions)]


def make_environment(contents: Contents, target: Path, folder: Path) -> None:
    """Write an environment that will be at ``target`` into a new folder.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir()
    folder.chmod(0o755)
    for name, path in contents.files.items():
        place = folder / name
        make_folders(place.parent)
        shutil.copy2(path, place)
        place.chmod(0o755 if place.stat().st_mode & 0o100 else 0o644)
    for name, text in contents.written.items():
        place = folder / name
        make_folders(place.parent)
        place.write_text(text)
        place.chmod(0o755 if name.startswith("bin/") else 0o644)
    python = folder / "bin" / "python"
    python.symlink_to(_python())
    (folder / "bin" / "python3").symlink_to("python")
    words = ("-P", "-m", "compileall", "-q", "-s", str(folder), "-p", str(target), str(folder / "lib"))
    compile_command = [str(python), *words]
    subprocess.run(compile_command, check=False, capture_output=True, umask=0o022)
    (folder / RECORD).write_text(json.dumps(contents.digests(), indent=0, sort_keys=True))
    (folder / RECORD).chmod(0o644)


def is_intact(folder: Path, digests: dict[str, str]) -> bool:
    """Is an environment in a folder made of just this, and nothing of it changed since?"""
    try:
        if json.loads((folder / RECORD).read_text()) != digests:
            return False
        if not os.access(folder / "bin" / "python", os.X_OK):
            return False
        return all(sha256((folder / name).read_bytes()) == digest for name, digest in digests.items())
    except (OSError, ValueError):
        return False


def refuse_private_python(user: str, uid: int) -> None:
    """Refuse an interpreter that the user of the sidecar may not run.

    Raises:
        UserError: it lies where only others may look.
    """
    python = _python()
    for at in (python, *python.parents):
        status = at.stat()
        if uid not in (0, status.st_uid) and not status.st_mode & 0o001:
            raise UserError(
                f"{python} is the Python of this environment, and {user} may not pass {at}; make an environment with a "
                "Python that everybody may run, such as /usr/bin/python3, install treadle there, and use its command"
            )


def _python() -> Path:
    """Return the interpreter that this environment was made of."""
    return Path(str(getattr(sys, "_base_executable", sys.executable))).resolve()


def _written(target: Path, site: str) -> dict[str, str]:
    python = _python()
    info = f"{site}/treadle-{metadata.version('treadle')}.dist-info"
    own = metadata.distribution("treadle")
    return {
        "pyvenv.cfg": f"home = {python.parent}\ninclude-system-site-packages = false\n"
        f"version = {'.'.join(map(str, sys.version_info[:3]))}\n",
        "bin/treadle": "#!/bin/sh\n# The `treadle` of this release.\n"
        f'exec {shlex.quote(str(target / "bin" / "python"))} -P -m treadle "$@"\n',
        f"{info}/METADATA": own.read_text("METADATA") or "",
        f"{info}/INSTALLER": "treadle install\n",
    }


def required(line: str, extras: Collection[str] = ()) -> str:
    """Return the name that a requirement begins with, empty if it is of an extra that is not asked for."""
    extra = _EXTRA.search(line)
    if extra and extra[1] not in extras:
        return ""
    name = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


def _files_of(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    listed = distribution.files
    if listed is None:
        raise UserError(
            f"{distribution.metadata['Name']} is installed without a list of its files; install treadle with pip into "
            "an environment of its own (python3 -m venv), and use the command of that"
        )
    for each in listed:
        path = Path(str(distribution.locate_file(each)))
        if ".." not in each.parts and path.is_file():
            yield str(each), path


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it that are missing, mode 0755; return those made, the outer ones first.

    Raises:
        OSError: one cannot be made; none is left then.
    """
    made: list[Path] = []
    missing = list(takewhile(lambda each: not each.exists(), (folder, *folder.parents)))
    try:
        for each in reversed(missing):
            each.mkdir()
            made.append(each)
            each.chmod(0o755)
    except OSError:
        remove_folders(made)
        raise
    return made


def remove_folders(folders: list[Path]) -> None:
    """Remove those folders that are empty, the inner ones first."""
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def sha256(data: bytes | None) -> str:
    """Return the SHA-256 of a content; empty if there is none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def record_in(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of an environment as it was written; empty if that cannot be read."""
    try:
        return {str(name): str(digest) for name, digest in json.loads((folder / RECORD).read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}

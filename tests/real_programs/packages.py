"""The programs themselves: jars of Maven Central and packages of PyPI, of fixed versions, fetched once into build/."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.real_programs.account import ProgramError

from treadle_lab.minicluster.settings import COMPLETE, build_folder, gather

HERE = Path(__file__).parent
FETCH_S = 1800.0


def jars(name: str, say: Callable[[str], None]) -> Path:
    """Return the folder with the jars that poms/NAME.xml lists; Maven fetches them the first time.

    Raises:
        ClusterError: Maven is missing or fails.
    """
    pom = HERE / "poms" / f"{name}.xml"
    return gather(lambda _: say(f"fetching the jars of {name} (once)"), pom, _cache())


def python(name: str, say: Callable[[str], None]) -> Path:
    """Return a virtual environment with the packages that requirements/NAME.txt lists; pip fetches them the first time.

    Raises:
        ProgramError: pip fails.
    """
    listed = HERE / "requirements" / f"{name}.txt"
    digest = hashlib.sha256(listed.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = _cache() / f"{name}-{digest}"
    if not (folder / COMPLETE).is_file():
        say(f"fetching the Python packages of {name} (once)")
        shutil.rmtree(folder, ignore_errors=True)
        _call([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        _call([*pip, "-r", str(listed)])
        (folder / COMPLETE).touch()
    return folder


def site_packages(environment: Path) -> Path:
    """Return where the packages of a virtual environment are."""
    return next(iter(environment.glob("lib/python3*/site-packages")))


def _cache() -> Path:
    folder = build_folder() / "real-programs" / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_S)
    if done.returncode:
        raise ProgramError(f"cannot run, {' '.join(command)} failed: {(done.stdout + done.stderr).strip()[-400:]}")

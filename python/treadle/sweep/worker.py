"""A Spark worker's setup without Treadle: compares its code with the driver's, and unpacks the archives.

Functions of this module are pickled by value for workers, so only Python's library may be imported here.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
import socket
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RUNS = "treadle.sweep.runs"
"""The module whose imports are the code of a run."""
LIBRARIES = ("numba", "numpy")
"""Libraries whose versions may affect results."""
CHECKED = "_checked_code"
"""The attribute of the imported package with its checked digest: a process runs many lines."""
LONG_AGO_S = 1_000_000_000
"""Modification time of all unpacked files: compiled code is cached until its file changes."""


class OtherEnvironmentError(RuntimeError):
    """A worker has other libraries or code than the driver: it cannot run the sweep."""


def package_digest(package: Path) -> str:
    """Return a digest of the code of runs in a package's folder; empty if its version of Treadle has none."""
    try:
        return str(runpy.run_path(str(package / "sources.py"))["digest"](RUNS))
    except (OSError, ValueError):
        return ""


def libraries() -> str:
    """Return the versions of the libraries that may affect results."""
    names = []
    for name in LIBRARIES:
        try:
            names.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            names.append(f"no {name}")
    return ", ".join(names)


def use_code(digest: str, libraries_wanted: str, archive: Path) -> None:
    """Make ``import treadle`` give the driver's code: the installed one, or else the archive's.

    Args:
        digest: digest of the driver's code
        libraries_wanted: the driver's libraries
        archive: the driver's package, zipped

    Raises:
        OtherEnvironmentError: the worker has other libraries, or has already imported other code.
    """
    where = f"Python {sys.executable} on {socket.gethostname()}"
    if libraries() != libraries_wanted:
        raise OtherEnvironmentError(
            f"{where} has {libraries()}, the driver {libraries_wanted}; give both the same environment"
        )
    if getattr(sys.modules.get("treadle"), CHECKED, None) == digest:
        return
    spec = importlib.util.find_spec("treadle")
    if spec is None or not spec.origin or package_digest(Path(spec.origin).parent) != digest:
        if "treadle" in sys.modules:
            raise OtherEnvironmentError(f"{where} has imported another version of Treadle; restart its executors")
        sys.path.insert(0, str(unpacked(archive)))
        importlib.invalidate_caches()
    import treadle  # only now is it the driver's

    setattr(treadle, CHECKED, digest)


def unpacked(archive: Path) -> Path:
    """Return the folder with an archive's content, next to it; the first process unpacks it."""
    folder = archive.with_suffix(".unpacked")
    if folder.is_dir():
        return folder
    part = Path(tempfile.mkdtemp(dir=archive.parent, prefix=".unpacking-"))
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(part)
    for place in part.rglob("*"):
        os.utime(place, (LONG_AGO_S, LONG_AGO_S))
    try:
        part.rename(folder)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        if not folder.is_dir():
            raise
    return folder

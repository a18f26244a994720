"""What a worker of Spark does before it has Treadle: compares its code with the driver's, and unpacks what came along.

Functions of this module travel to workers by their content, so nothing but Python's library may be imported here.
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
"""The module whose imports are all that a run is made of."""
LIBRARIES = ("numba", "numpy")
"""Whose versions results may depend on."""
CHECKED = "_checked_code"
"""The attribute of the imported package with the digest that it was checked for: a process runs many lines."""
LONG_AGO_S = 1_000_000_000
"""When all unpacked files were changed last: compiled code is kept for as long as its file is not changed."""


class OtherEnvironmentError(RuntimeError):
    """A worker has other libraries, or other code, than the driver: no run of the sweep can be run there."""


def package_digest(package: Path) -> str:
    """Return a digest of the code of runs in a package's folder; empty if its version of Treadle cannot say."""
    try:
        return str(runpy.run_path(str(package / "sources.py"))["digest"](RUNS))
    except (OSError, ValueError):
        return ""


def libraries() -> str:
    """Return the versions of the libraries that results may depend on."""
    names = []
    for name in LIBRARIES:
        try:
            names.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            names.append(f"no {name}")
    return ", ".join(names)


def use_code(digest: str, libraries_wanted: str, archive: Path) -> None:
    """See that ``import treadle`` gives the driver's code: what is installed, or else what is in the archive.

    Args:
        digest: of the driver's code
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
    """Return the folder beside an archive with what is in it, which the first process unpacks."""
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

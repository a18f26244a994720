"""What a worker of Spark does before it has Treadle: compares its code with the driver's, and unpacks what came along.

Functions of this module travel to workers by their content, so nothing but Python's library may be imported here, and
`treadle.sweep.digests`, which travels with it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
import tempfile
import zipfile
from pathlib import Path

from treadle.sweep.digests import libraries, package_digest

LONG_AGO_S = 1_000_000_000
"""When all unpacked files were changed last: compiled code is kept for as long as its file is not changed."""


class OtherEnvironmentError(RuntimeError):
    """A worker has other libraries, or other code, than the driver: no run of the sweep can be run there."""


def use_code(digest: str, wanted: str, archive: Path) -> None:
    """See that ``import treadle`` gives the driver's code: what is installed, or else what is in the archive.

    Args:
        digest: of the driver's code
        wanted: the driver's libraries
        archive: the driver's package, zipped

    Raises:
        OtherEnvironmentError: the worker has other libraries, or has already imported other code.
    """
    where = f"Python {sys.executable} on {socket.gethostname()}"
    if libraries() != wanted:
        raise OtherEnvironmentError(f"{where} has {libraries()}, the driver {wanted}; give both the same environment")
    found = importlib.util.find_spec("treadle")
    if found is not None and found.origin and package_digest(Path(found.origin).parent) == digest:
        return
    if "treadle" in sys.modules:
        raise OtherEnvironmentError(f"{where} has imported another version of Treadle; let its executors start anew")
    sys.path.insert(0, str(unpacked(archive)))
    importlib.invalidate_caches()


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


def run_text(text: str, digest: str, wanted: str, code: str, files: str) -> tuple[bytes, bool]:
    """Run a line on a worker.

    Args:
        text: the line
        digest: of the driver's code
        wanted: the driver's libraries
        code: the name of the archive with the package, among Spark's files
        files: the name of the archive with the files that lines name
    """
    from pyspark import SparkFiles

    use_code(digest, wanted, Path(SparkFiles.get(code)))
    from treadle.sweep.line import Line, run_line

    return run_line(Line.parse(text), unpacked(Path(SparkFiles.get(files))))

"""What a run of a sweep is made of besides its line: a digest of the code, and the versions of the libraries below it.

Functions of this module travel to Spark's workers by their content: nothing but Python's library may be imported here.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CODE = (
    "compiled",
    "config",
    "constraints",
    "dag",
    "engine",
    "errors.py",
    "events",
    "fairness",
    "memory.py",
    "model",
    "planner",
    "policy",
    "proposals.py",
    "simulate",
    "simulator",
    "sweep/line.py",
    "words.py",
    "workload",
    "yarn",
)
"""What a run is made of, in the package: files, and folders with all in them."""
LIBRARIES = ("numba", "numpy")
"""Whose versions results may depend on."""


def package_digest(package: Path, sources: tuple[str, ...] = CODE) -> str:
    """Return a digest of code in a package's folder: that which runs of a sweep are made of, or other files of it."""
    digest = hashlib.sha256()
    for source in sources:
        place = package / source
        for file in sorted(place.rglob("*.py")) if place.is_dir() else (place,):
            digest.update(f"\n{file.relative_to(package)}\n".encode())
            digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def libraries() -> str:
    """Return the versions of the libraries that results may depend on."""
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)

"""What decided: hashes of the engine's code and of the wire's schema, and the versions of what it stands on."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba
import numpy

import treadle
from treadle.wire.page import document

DECIDES: Final = ("compiled", "config", "constraints", "engine", "events", "model", "policy", "wire")
"""The parts of the package that a decision goes through; with the files beside them that they share."""


def _files() -> Iterator[Path]:
    root = Path(treadle.__file__).parent
    yield root / "proposals.py"
    for part in DECIDES:
        yield from sorted((root / part).rglob("*.py"))


@cache
def engine_hash() -> str:
    """Return a hash of the code that decides; equal for equal code only."""
    found = hashlib.sha256()
    root = Path(treadle.__file__).parent
    for file in _files():
        found.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def hash_of(document: Any) -> str:
    """Return a hash of a JSON document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


@cache
def schema_hash() -> str:
    """Return a hash of the wire's schema."""
    return hash_of(document())


def versions() -> dict[str, str]:
    """Return the versions of what the engine stands on."""
    return {
        "treadle": treadle.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }

"""What decided: hashes of the engine's code and of the wire's schema, and the versions of what it stands on."""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from typing import Any

import numba
import numpy

import treadle
from treadle.sources import DECISION, digest
from treadle.wire.page import document


@cache
def engine_hash() -> str:
    """Return a hash of the code that decides and of the wire's; equal for equal code only."""
    return digest(DECISION, "treadle.wire")[:16]


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

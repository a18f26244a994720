"""How the simulator's kernels are compiled: as the engine's are, and kept in a folder of their own.

The folder is named after the content of this package, so that a change here compiles nothing of the engine anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit

from treadle.model.kernel.compiled import cache_folder

F = TypeVar("F", bound=Callable[..., Any])

_COMMON = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


def _folder() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return str(Path(cache_folder()).parent / f"simulator-{digest.hexdigest()[:16]}")


FOLDER = _folder()


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return _compile(function, {})


def inner(function: F) -> F:
    """Compile a function that only kernels call."""
    return _compile(function, {"no_cpython_wrapper": True})


def _compile(function: F, more: dict[str, bool]) -> F:
    before = config.CACHE_DIR
    config.CACHE_DIR = FOLDER
    try:
        return cast(F, njit(**_COMMON, **more)(function))
    except RuntimeError:  # no folder may be written: compile at each start
        return cast(F, njit(**(_COMMON | {"cache": False}), **more)(function))
    finally:
        config.CACHE_DIR = before

"""How kernels are compiled: without the GIL, division by zero as in numpy, and kept on disk.

numba keeps compiled code until the file of the function changes, but not when one that it calls changes, in another
file. So what is kept lies in a folder named after the content of all files that kernels are made of: another version
never runs old code.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import config, njit

F = TypeVar("F", bound=Callable[..., Any])

# Without reference counts (`_nrt`), which would cost more than all the rest: kernels neither make nor keep arrays.
_COMMON = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


@cache
def cache_folder() -> str:
    """Return where compiled code is kept: beside the package if that may be written, else in the user's cache."""
    package = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for part in ("model", "policy", "planner"):
        for file in sorted((package / part).rglob("*.py")):
            digest.update(file.read_bytes())
    base = package / "__pycache__"
    if not os.access(base if base.exists() else package, os.W_OK):
        base = Path(os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME", "") + "/.cache") / "treadle"
    return str(Path(os.environ.get("NUMBA_CACHE_DIR") or base) / f"kernels-{digest.hexdigest()[:16]}")


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return _compile(function, {})


def inner(function: F) -> F:
    """Compile a function that only kernels call; leaving out the way in from Python halves the time that it takes."""
    return _compile(function, {"no_cpython_wrapper": True})


def _compile(function: F, more: dict[str, bool]) -> F:
    before = config.CACHE_DIR
    config.CACHE_DIR = cache_folder()
    try:
        return cast(F, njit(**_COMMON, **more)(function))
    except RuntimeError:  # no folder may be written: compile at each start
        return cast(F, njit(**(_COMMON | {"cache": False}), **more)(function))
    finally:
        config.CACHE_DIR = before

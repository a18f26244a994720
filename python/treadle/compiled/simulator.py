"""How the simulator's kernels are compiled: as the engine's are, and kept in a folder of their own.

The folder is named after the content of the simulator's kernels, so that a change of those compiles nothing of the
engine anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from numba import config, njit

from treadle.compiled.functions import cache_folder, digest_of
from treadle.compiled.one_at_a_time import compiled_once

F = TypeVar("F", bound=Callable[..., Any])

_COMMON = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


SIMULATOR: Final = (
    "events",
    "compiled",
    "policy/mapreduce_workers.py",
    "simulator/cluster",
    "simulator/event_queue.py",
    "simulator/cell",
    "simulator/workers",
)
"""What the simulator's kernels are made of, in the package: files, and folders with all in them."""

FOLDER: Final = str(Path(cache_folder()).parent / f"simulator-{digest_of(SIMULATOR)}")


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    compiled = _compile(function, {})
    compiled_once(compiled, FOLDER)
    return compiled


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

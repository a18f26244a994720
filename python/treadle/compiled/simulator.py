"""How the simulator's kernels are compiled: as the engine's are, and kept in a folder of their own.

The folder is named after the code of the simulator's kernels, so that a change of those compiles nothing of the engine
anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from treadle.compiled.functions import cache_folder, compiled_in, inner

__all__ = ["FOLDER", "ROOTS", "inner", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

ROOTS: Final = ("treadle.simulator.cluster", "treadle.simulator.measure")
"""What the simulator's kernels are made of, with all that it imports."""

FOLDER: Final = cache_folder("simulator", ROOTS)


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return compiled_in(FOLDER, function)

"""Compilation of the simulator's kernels: the same as the engine's, with a cache folder of their own.

The folder is named after the code of the simulator's kernels, so that their changes do not recompile the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from treadle.compiled.functions import cache_folder, compiled_in
from treadle.compiled.functions import inner as inner

F = TypeVar("F", bound=Callable[..., Any])

ROOTS: Final = ("treadle.simulator.cluster", "treadle.simulator.measure")
"""The packages that the simulator's kernels are defined in; their imports count too."""

FOLDER: Final = cache_folder("simulator", ROOTS)


def kernel(function: F) -> F:
    """Compile a function that is called from Python."""
    return compiled_in(FOLDER, function)

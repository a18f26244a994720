"""How kernels of the papers' simulators are compiled: as the engine's are, and kept in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from treadle.compiled.functions import cache_folder, compiled_in, inner

__all__ = ["FOLDER", "ROOTS", "inner", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

ROOTS: Final = ("treadle_lab.models",)
FOLDER: Final = cache_folder("models", ROOTS)


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return compiled_in(FOLDER, function)

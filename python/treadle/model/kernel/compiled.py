"""How kernels are compiled: without the GIL, into a cache on disk, division by zero as in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

_COMMON = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return cast(F, njit(**_COMMON)(function))


def inner(function: F) -> F:
    """Compile a function that only kernels call; leaving out the way in from Python halves the time that it takes."""
    return cast(F, njit(no_cpython_wrapper=True, **_COMMON)(function))

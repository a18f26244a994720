"""Compiled functions of the models, and their runs on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from treadle.compiled.functions import cache_folder, compiled_in, inner

__all__ = ["FOLDER", "ROOTS", "inner", "kernel"]


F = TypeVar("F", bound=Callable[..., Any])

ROOTS: Final = ("treadle_lab.models",)
FOLDER: Final = cache_folder("models", ROOTS)


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return compiled_in(FOLDER, function)


T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with (runs done, all runs)."""


def on_all_cores(call: Callable[[T], R], items: Sequence[T], progress: Progress | None = None) -> list[R]:
    """Return what a function returns for each item, whose compiled code runs without Python's lock."""
    found: list[R] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for one in pool.map(call, items):
                found.append(one)
                if progress is not None:
                    progress(len(found), len(items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return found

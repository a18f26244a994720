"""How the simulator's kernels are compiled: as the engine's are, and kept in a folder of their own.

The folder is named after the content of the simulator's kernels, so that a change of those compiles nothing of the
engine anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from treadle.compiled.cache_folder import kept_in
from treadle.compiled.functions import compiled_in, digest_of, inner

__all__ = ["FOLDER", "SIMULATOR", "inner", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

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

FOLDER: Final = kept_in(f"simulator-{digest_of(SIMULATOR)}")


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return compiled_in(FOLDER, function)

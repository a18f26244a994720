"""Of several processes that need the same kernel one compiles it; the others wait, and find what it has kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from numba.core.compiler_lock import global_compiler_lock

from treadle.files import hold

WAIT_S: Final = 300.0
"""How long a process waits for another one, which may be stopped; then it compiles by itself."""
_POLL_S: Final = 0.1


def compiled_once(dispatcher: Any, folder: str) -> None:
    """Let one process at a time compile a function of numba's, whose code is kept in a folder.

    numba's own lock, which is for threads, is taken first: so a thread that waits for another process blocks no
    thread of its own process.
    """
    compile_alone = dispatcher.compile
    lock = Path(folder) / f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__name__}.lock"

    def compile_once(signature: Any) -> Any:
        with global_compiler_lock, locked(lock):
            return compile_alone(signature)

    dispatcher.compile = compile_once


@contextmanager
def locked(file: Path, wait_s: float = WAIT_S) -> Iterator[bool]:
    """Hold the lock of a file while the context lasts; False where it could not be had in time, or not be made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("a")
    except OSError:  # no folder may be written
        yield False
        return
    with handle:
        yield _acquired(handle, wait_s)


def _acquired(handle: Any, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while not hold(handle.fileno()):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True

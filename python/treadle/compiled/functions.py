"""How kernels are compiled: without the GIL, division by zero as in numpy, and kept on disk.

numba keeps compiled code until the file of the function changes, but not when one that it calls changes, in another
file. So what is kept lies in a folder named after the code of all files that kernels are made of: another version never
runs old code. What only kernels call is optimised with the kernel and no further, which saves a third of the time. Of
several processes that need the same kernel one compiles it; the others wait, and find what it has kept.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from numba import _dynfunc, config, njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import types

import treadle
from treadle.compiled.cache_folder import kept_in
from treadle.files import hold, write_whole
from treadle.sources import DECISION, digest


class InnerLibrary(JITCodeLibrary):
    """Code to be linked into that of kernels."""

    def _optimize_final_module(self) -> None:
        """Leave that to the kernel: here only what is within one function has been simplified."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class InnerCompiler(Compiler):
    """Compiles a function that only kernels call."""

    def compile_extra(self, func: Any) -> Any:
        """Return what numba keeps of a compiled function; its entry point represents it, but cannot be called."""
        state = self.state
        state.flags.no_compile = True
        state.library = InnerLibrary(state.targetctx.codegen(), func.__qualname__)
        result = super().compile_extra(func)
        result.library.finalize()
        described = result.fndesc
        entry = _dynfunc.make_function(
            described.lookup_module(), func.__name__, "code for kernels", 0, result.environment, (result.library,)
        )
        state.targetctx.insert_user_function(entry, described, [result.library])
        return result._replace(entry_point=entry)


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


F = TypeVar("F", bound=Callable[..., Any])

# numba reads .numba_config.yaml of the current folder, which may be another user's, when it is imported and whenever it
# compiles. The file may name where compiled code is found. From here on numba's settings are those of the environment.
config._config_fname = ""
config.reload_config()

# Without reference counts (`_nrt`), which would cost more than all the rest: kernels neither make nor keep arrays.
_COMMON = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}

ROOTS: Final = (DECISION, "treadle.planner")
"""What the kernels of the engine and the planner are made of, with all that it imports."""


def folder_name(name: str = "kernels", roots: Sequence[str] = ROOTS) -> str:
    """Return the name of the folder for compiled code of roots (`treadle.sources.digest`), as their files are now."""
    return f"{name}-{digest(*roots)[:16]}"


@cache
def cache_folder(name: str = "kernels", roots: Sequence[str] = ROOTS) -> str:
    """Return where this process keeps compiled code of roots.

    `folder_name` takes half a second; it is kept beside the code for as long as no file of the packages changes.

    Raises:
        UserError: another user could have put code there, or this one may not write to it.
    """
    packages = Path(treadle.__file__).parents[1]
    tops = sorted({"treadle", *(root.partition(".")[0] for root in roots)})
    stats = [(str(file), stat_of(file)) for top in tops for file in sorted((packages / top).rglob("*.py"))]
    kept = Path(kept_in("names")) / hashlib.sha256(repr((name, roots, stats)).encode()).hexdigest()[:16]
    try:
        known = kept.read_text("ascii")
    except OSError:
        known = folder_name(name, roots)
        with suppress(OSError):
            write_whole(kept, known)
    return kept_in(known)


def stat_of(file: Path) -> tuple[int, int]:
    """Return what changes with a file's content: as numba goes by it."""
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def kernel(function: F) -> F:
    """Compile a function that Python calls."""
    return compiled_in(cache_folder(), function)


def compiled_in(folder: str, function: F) -> F:
    """Compile a function that Python calls, and keep its code in a folder named after what it is made of."""
    compiled = _widened(_compile(function, folder, {}))
    compiled_once(compiled, folder)
    return compiled


def inner(function: F) -> F:
    """Compile a function that only kernels call: once, as a part of theirs; there is no way in from Python."""
    more = {"no_cpython_wrapper": True, "cache": False, "pipeline_class": InnerCompiler}
    return _widened(_compile(function, cache_folder(), more))


def _widened(function: F) -> F:
    """Let kernels call a function with 64 bits for each integer, so that it is compiled once.

    numba compiles a function anew for each combination of argument types, and has one for each width and for each
    constant: a field of a record, a counter of a loop and a 0 are three.
    """
    original = cast(Any, function).get_call_template

    def get_call_template(args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        return original([_wide(arg) for arg in args], {name: _wide(arg) for name, arg in keywords.items()})

    cast(Any, function).get_call_template = get_call_template
    return function


def _wide(argument: Any) -> Any:
    """Return the type that an argument is passed as."""
    plain = cast(Any, types).unliteral(argument)
    whole = types.Integer, types.IntEnumMember
    return types.int64 if isinstance(plain, whole) and plain != types.uint64 else plain


def _compile(function: F, folder: str, more: dict[str, Any]) -> F:
    before = config.CACHE_DIR
    config.CACHE_DIR = folder
    try:
        return cast(F, njit(**(_COMMON | more))(function))
    finally:
        config.CACHE_DIR = before

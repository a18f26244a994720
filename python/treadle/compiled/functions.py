"""How kernels are compiled: without the GIL, division by zero as in numpy, and kept on disk.

numba keeps compiled code until the file of the function changes, but not when one that it calls changes, in another
file. So what is kept lies in a folder named after the code of all files that kernels are made of: another version never
runs old code. numba runs what it finds there, so each folder is checked before use: kernels lie beside the package or
in the user's cache, whichever is safe first, or in a private folder that goes with the process. The environment chooses
nothing for a sidecar; other processes take the folder in `NUMBA_CACHE_DIR`, which a sidecar sets for its children. What
only kernels call is optimised with the kernel and no further, which saves a third of the time. Of several processes
that need the same kernel one compiles it; the others wait, and find what it has kept.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
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
from treadle.config.trust import reason_against, user_name
from treadle.errors import UserError
from treadle.files import hold, write_whole
from treadle.sources import DECISION, digest

_log = logging.getLogger(__name__)

VARIABLE: Final = "NUMBA_CACHE_DIR"
_PACKAGE: Final = Path(__file__).resolve().parent.parent

MayWrite = Callable[[Path], bool]
"""May a user write to a folder that exists?"""


def places(uid: int) -> list[Path]:
    """Return the folders that a user's compiled code is kept in if none is chosen, the preferred one first.

    The home is that of the user database: `HOME` may name a folder of another user.
    """
    found = [_PACKAGE / "__pycache__"]
    try:
        home = Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        return found
    return [*found, home / ".cache" / "treadle"] if home.is_absolute() else found


def reason_against_folder(folder: Path, uid: int, may_write: MayWrite) -> str:
    """Return why a user's compiled code cannot be kept in a folder, which may be missing; empty if it can.

    Args:
        folder: the folder; where it is missing, the nearest folder above it that exists is checked
        uid: the user
        may_write: whether that user may write to a folder
    """
    try:
        at = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
        reason = reason_against(at, {0, uid})
        return reason or (
            "" if at.is_dir() and may_write(at) else f"{at} is not a folder that {user_name(uid)} may write to"
        )
    except OSError as error:
        return f"{folder}: {error.strerror}"


def reason_against_chosen(folder: Path, uid: int, may_write: MayWrite) -> str:
    """Return why a sidecar of a user refuses the folder in ``kernels.folder``, and the remedy; empty if it does not."""
    if not os.path.lexists(folder):
        return f"{folder} is missing; make it as the sidecar's user: mkdir -p -m 700 {folder}"
    return reason_against_folder(folder, uid, may_write)


def lasting_folder(uid: int, may_write: MayWrite, among: Iterable[Path] | None = None) -> tuple[Path | None, str]:
    """Return the first safe one of `places`, or None and why there is none."""
    reasons = []
    for place in places(uid) if among is None else among:
        reason = reason_against_folder(place, uid, may_write)
        if not reason:
            return place, ""
        reasons.append(reason)
    return None, "; ".join(reasons)


def may_write_here(folder: Path) -> bool:
    """May this process write to a folder?"""
    return os.access(folder, os.W_OK | os.X_OK)


class KernelCache:
    """The folder of this process: the chosen one, a safe one that lasts, or a private one."""

    def __init__(
        self,
        chosen: str = "",
        environment: MutableMapping[str, str] = os.environ,
        among: Iterable[Path] | None = None,
    ) -> None:
        """Choose the folder; numba must not have been imported yet. A private one is made now.

        Args:
            chosen: a folder that was checked already; empty: none
            environment: the process's
            among: folders to choose from in place of `places`

        Raises:
            UserError: no folder is safe, and no private one can be made.
        """
        self._private: Path | None = None
        self.why_private = ""
        """Why no folder lasts; empty if one does."""
        folder: Path | None = Path(chosen)
        if not chosen:
            folder, self.why_private = lasting_folder(os.geteuid(), may_write_here, among)
        if folder is None:
            folder = self._private = _private_folder(self.why_private)
        environment[VARIABLE] = str(folder)

    def remove(self) -> None:
        """Remove a private folder and all in it."""
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)


def kept_in(name: str) -> str:
    """Return this process's folder for compiled code of a name; it is made, for its owner alone, where it is missing.

    Raises:
        UserError: another user could have put code there, or this one may not write to it.
    """
    if not os.environ.get(VARIABLE):
        cache = KernelCache()
        atexit.register(cache.remove)
        if cache.why_private:
            _log.warning("compiled code is not kept, each start compiles: %s", cache.why_private)
    folder = Path(os.environ[VARIABLE]).absolute() / name
    try:
        for above in reversed(folder.parents):
            if not above.is_dir():
                above.mkdir(mode=0o755, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
    else:
        reason = reason_against_folder(folder, os.geteuid(), may_write_here)
    if reason:
        raise UserError(f"compiled code cannot be kept: {reason}; or name another folder in {VARIABLE}")
    return str(folder)


def _private_folder(why: str) -> Path:
    """Make a folder with a name that nobody could know, for this user alone."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="treadle-kernels-"))
    except OSError as error:
        raise UserError(f"compiled code cannot be kept: {why}; no temporary folder: {error.strerror}") from error
    reason = reason_against_folder(folder, os.geteuid(), may_write_here)
    if reason:
        folder.rmdir()
        raise UserError(f"compiled code cannot be kept: {why}; {reason}, or set TMPDIR to another folder")
    return folder


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
    found = file.stat()
    return found.st_mtime_ns, found.st_size


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
    return types.int64 if isinstance(plain, types.Integer) and plain != types.uint64 else plain


def _compile(function: F, folder: str, more: dict[str, Any]) -> F:
    before = config.CACHE_DIR
    config.CACHE_DIR = folder
    try:
        return cast(F, njit(**(_COMMON | more))(function))
    finally:
        config.CACHE_DIR = before

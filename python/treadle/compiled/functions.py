"""How kernels are compiled: without the GIL, division by zero as in numpy, and kept on disk.

numba keeps compiled code until the file of the function changes, but not when one that it calls changes, in another
file. So what is kept lies in a folder named after the content of all files that kernels are made of (`ENGINE`): another
version never runs old code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from numba import config, njit
from numba.extending import types

from treadle.compiled.cache_folder import kept_in
from treadle.compiled.inner_code import InnerCompiler
from treadle.compiled.one_at_a_time import compiled_once

F = TypeVar("F", bound=Callable[..., Any])

# numba reads .numba_config.yaml of the current folder, which may be another user's, when it is imported and whenever it
# compiles. The file may name where compiled code is found. From here on numba's settings are those of the environment.
config._config_fname = ""
config.reload_config()

# Without reference counts (`_nrt`), which would cost more than all the rest: kernels neither make nor keep arrays.
_COMMON = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}


ENGINE: Final = ("events", "compiled", "model", "policy", "planner")
"""What the kernels of the engine and the planner are made of, in the package: files, and folders with all in them."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def digest_of(sources: Sequence[str]) -> str:
    """Return a digest of the content of files and folders of the package."""
    digest = hashlib.sha256()
    for source in sources:
        place = _PACKAGE / source
        for file in sorted(place.rglob("*.py")) if place.is_dir() else (place,):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> str:
    """Return where this process keeps compiled code of the engine.

    Raises:
        UserError: another user could have put code there, or this one may not write to it.
    """
    return kept_in(f"kernels-{digest_of(ENGINE)}")


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

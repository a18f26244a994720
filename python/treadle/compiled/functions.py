"""Compilation of kernels: without the GIL, division by zero as in numpy, cached on disk.

numba's cache tracks changes of a function's own file, but not of functions in other files. The cache folder is
therefore named after the code of all files that kernels use, so outdated code never runs. Inner functions are optimised
only as part of their kernel, which saves a third of the compilation time. If several processes need a kernel, one
compiles it; the others wait and load the result.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from llvmlite import ir
from numba import _dynfunc, config, njit
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import typeof
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    types,
    unbox,
)

import treadle
from treadle.compiled.cache_folder import kept_in
from treadle.files import hold, write_whole
from treadle.sources import DECISION, digest


class InnerLibrary(JITCodeLibrary):
    """Code that is linked into kernels."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the kernel is optimised as a whole, this code only within each function."""

    def _finalize_final_module(self) -> None:
        """Generate no machine code."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class InnerCompiler(Compiler):
    """Compiles a function that only kernels call."""

    def compile_extra(self, func: Any) -> Any:
        """Return numba's compile result; its entry point identifies the function, but cannot be called."""
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
"""How long a process waits for another one, in seconds; then it compiles by itself."""
_POLL_S: Final = 0.1


def compiled_once(dispatcher: Any, folder: str) -> None:
    """Serialise the compilation of a numba function across processes that share a cache folder.

    numba's own lock (between threads) is taken first, so that a thread that waits for another process does not block
    threads of its own process.
    """
    compile_alone = dispatcher.compile
    lock = Path(folder) / f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__name__}.lock"

    def compile_once(signature: Any) -> Any:
        with global_compiler_lock, locked(lock):
            return compile_alone(signature)

    dispatcher.compile = compile_once


@contextmanager
def locked(file: Path, wait_s: float = WAIT_S) -> Iterator[bool]:
    """Hold a file lock during the context; yields False if it timed out or the file cannot be created."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("a")
    except OSError:  # no folder is writable
        yield False
        return
    with handle:
        deadline = time.monotonic() + wait_s
        while not (held := hold(handle.fileno())) and time.monotonic() <= deadline:
            time.sleep(_POLL_S)
        yield held


F = TypeVar("F", bound=Callable[..., Any])

# On import and on each compilation numba reads .numba_config.yaml from the current folder, which may belong to another
# user and may redirect the cache. From here on numba's settings come from the environment only.
config._config_fname = ""
config.reload_config()

# No reference counting (`_nrt`): kernels neither keep nor create arrays, and it would cost more than all the rest.
_COMMON = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}

ROOTS: Final = (DECISION, "treadle.planner")
"""The packages that kernels of the engine and the planner are defined in; their imports count too."""


def folder_name(name: str = "kernels", roots: Sequence[str] = ROOTS) -> str:
    """Return the name of the cache folder for roots, a digest of their files (`treadle.sources.digest`)."""
    return f"{name}-{digest(*roots)[:16]}"


@cache
def cache_folder(name: str = "kernels", roots: Sequence[str] = ROOTS) -> str:
    """Return this process's cache folder for the compiled code of roots.

    `folder_name` takes half a second; its result is stored next to the code until a file of the packages changes.

    Raises:
        UserError: another user could have written to it, or this one cannot.
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
    """Return modification time and size, the change markers that numba uses too."""
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def kernel(function: F) -> F:
    """Compile a function that is called from Python."""
    return compiled_in(cache_folder(), function)


def compiled_in(folder: str, function: F) -> F:
    """Compile a function that is called from Python, with the given cache folder."""
    compiled = _widened(_compile(function, folder, {}))
    compiled_once(compiled, folder)
    return compiled


def inner(function: F) -> F:
    """Compile a function that is called from kernels only: once, as a part of them, without a Python entry point."""
    more = {"no_cpython_wrapper": True, "cache": False, "pipeline_class": InnerCompiler}
    return _widened(_compile(function, cache_folder(), more))


def _widened(function: F) -> F:
    """Make kernels pass every integer as 64 bits, so that a function is compiled once.

    numba specialises on argument types, with one type for each width and each constant: a record field, a loop counter
    and a literal 0 give three specialisations.
    """
    original = cast(Any, function).get_call_template

    def get_call_template(args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        return original([_wide(arg) for arg in args], {name: _wide(arg) for name, arg in keywords.items()})

    cast(Any, function).get_call_template = get_call_template
    return function


def _wide(argument: Any) -> Any:
    """Return the type to which an argument is converted."""
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


C = TypeVar("C", bound=type[Any])


class Tables(types.Type):
    """The numba type of such a tuple: names and types of its fields."""

    def __init__(self, title: str, names: tuple[str, ...], fields: tuple[Any, ...]) -> None:
        """Name the type after its class and fields; the name is short because it is part of each function's name."""
        digest = hashlib.sha256(repr((names, [field.key for field in fields])).encode()).hexdigest()
        self.names = names
        self.fields = fields
        super().__init__(f"{title}{digest[:12]}")


def tables(cls: C) -> C:
    """Pass a named tuple of arrays to kernels as one pointer.

    numba passes one field by field, and each array as seven or more numbers; each access to one field copies them all.
    With the two dozen arrays of a `View` the compiler would spend most of its time on that. A marked class is unpacked
    once, where Python calls a kernel. Its fields are constant while the kernel runs; the elements of its arrays may
    change.
    """

    @typeof_impl.register(cls)
    def type_of(value: Any, _: Any) -> Tables:
        return Tables(cls.__name__, value._fields, tuple(typeof(field) for field in value))

    return cls


@register_model(Tables)
class _TablesModel(models.PrimitiveModel):
    """The address of the fields, in order."""

    def __init__(self, manager: Any, of: Tables) -> None:
        fields = ir.LiteralStructType([manager.lookup(field).get_data_type() for field in of.fields])
        super().__init__(manager, of, fields.as_pointer())


@infer_getattr
class _TablesAttribute(AttributeTemplate):
    key = Tables

    def generic_resolve(self, of: Tables, name: str) -> Any:
        return of.fields[of.names.index(name)] if name in of.names else None


@lower_getattr_generic(Tables)
def _get_field(context: Any, builder: Any, of: Tables, value: Any, name: str) -> Any:
    """Load a field; kernels never change it, so LLVM need not load it again."""
    at = of.names.index(name)
    field = of.fields[at]
    known = {id(each) for each in builder.block.instructions}
    place = cgutils.gep_inbounds(builder, value, 0, at)
    loaded = context.data_model_manager[field].load_from_data_pointer(builder, place)
    for each in builder.block.instructions:
        if id(each) not in known and isinstance(each, ir.instructions.LoadInstr):
            each.set_metadata("invariant.load", builder.module.add_metadata([]))
    return impl_ret_borrowed(context, builder, field, loaded)


@unbox(Tables)
def _unpack(of: Tables, value: Any, c: Any) -> NativeValue:
    """Unpack a tuple into the stack frame of the Python entry point; it outlives the kernel (never inlined)."""
    fields = cgutils.alloca_once(c.builder, c.context.get_value_type(of).pointee)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    for at, field in enumerate(of.fields):
        native = c.unbox(field, c.pyapi.tuple_getitem(value, at))
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
        model = c.context.data_model_manager[field]
        c.builder.store(model.as_data(c.builder, native.value), cgutils.gep_inbounds(c.builder, fields, 0, at))
    return NativeValue(fields, is_error=c.builder.load(failed))

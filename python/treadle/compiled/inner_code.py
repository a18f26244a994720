"""How functions that only kernels call are compiled: to what LLVM optimises with the kernel, and no further.

numba optimises each function with all that it calls and makes machine code of it, on its own, and does both again for
its caller. What kernels call is never called by itself, so one pass over each kernel is
enough; it saves a third of the time.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


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

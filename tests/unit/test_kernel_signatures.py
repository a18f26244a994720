"""How often the engine's functions are compiled: numba does it anew for each combination of argument types."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.core.registry import CPUDispatcher

import treadle.compiled
import treadle.model
import treadle.policy
from treadle.compiled.array_types import I32, I64
from treadle.compiled.functions import InnerLibrary, inner, kernel, tables
from treadle.compiled.pair_map import find, remove
from treadle.config.settings import default_settings
from treadle.live.policies import warm_up

ROOT = Path(__file__).resolve().parents[2]

PARTS: Any = [each.py_func for each in (find, remove)]  # type: ignore[attr-defined]


def compiled_functions() -> Iterator[Any]:
    """Yield each function of the engine that numba compiles."""
    for package in (treadle.compiled, treadle.model, treadle.policy):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            for member in vars(importlib.import_module(found.name)).values():
                if isinstance(member, CPUDispatcher) and member.py_func.__module__ == found.name:
                    yield member


def test_the_engine_compiles_an_inner_function_once_and_a_kernel_for_no_more_than_two_kinds_of_arrays() -> None:
    warm_up(default_settings())
    functions = list(compiled_functions())
    assert len(functions) > 150
    often = {
        function.py_func.__name__: len(function.signatures)
        for function in functions
        if len(function.signatures) > (1 if function.targetoptions.get("no_cpython_wrapper") else 2)
    }
    assert not often


def test_the_warm_up_compiles_every_kernel() -> None:
    # in a process of its own: others may have compiled what the warm-up leaves out
    code = "from tests.unit.test_kernel_signatures import warmed_up; warmed_up()"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, timeout=900
    )
    assert (done.returncode, done.stdout) == (0, "")


def warmed_up() -> None:
    """Warm up; print the kernels that have not been compiled but those that are compiled as a part of others."""
    warm_up(default_settings())
    kernels = [each for each in compiled_functions() if not each.targetoptions.get("no_cpython_wrapper")]
    assert len(kernels) > 40
    for kernel_ in kernels:
        if not kernel_.signatures and kernel_.py_func not in PARTS:
            sys.stdout.write(f"{kernel_.py_func.__qualname__}\n")


def test_integers_of_all_widths_and_constants_are_one_type_to_an_inner_function() -> None:
    @inner
    def next_of(number: int) -> int:
        return number + 1

    @kernel
    def add_up(narrow: I32, wide: I64) -> int:
        return next_of(narrow[0]) + next_of(wide[0]) + next_of(3) + next_of(-2)

    assert add_up(np.array([10], np.int32), np.array([1 << 40], np.int64)) == 11 + (1 << 40) + 1 + 4 - 1
    assert len(next_of.signatures) == 1  # type: ignore[attr-defined]
    (code,) = next_of.overloads.values()  # type: ignore[attr-defined]
    assert isinstance(code.library, InnerLibrary)


class Number(IntEnum):
    TEN = 10


def test_a_member_of_an_enumeration_is_an_integer_to_an_inner_function() -> None:
    @inner
    def next_of(number: int) -> int:
        return number + 1

    @kernel
    def add_up(wide: I64) -> int:
        return next_of(wide[0]) + next_of(Number.TEN)

    assert add_up(np.array([1 << 40], np.int64)) == (1 << 40) + 1 + 11
    assert len(next_of.signatures) == 1  # type: ignore[attr-defined]


@tables
class Inside(NamedTuple):
    """Goes into another."""

    narrow: I32
    factor: float


@tables
class Outside(NamedTuple):
    """Has another in it."""

    wide: I64
    inside: Inside
    limit: int


@kernel
def double(outside: Outside, times: int) -> float:
    """Write to an array in a tuple, and read what was written."""
    for _ in range(times):
        outside.wide[0] += outside.inside.narrow[1]
        outside.inside.narrow[1] = min(2 * outside.inside.narrow[1], outside.limit)
    return float(outside.wide[0] * outside.inside.factor)


def test_kernels_write_to_the_arrays_of_a_tuple_and_see_what_they_wrote() -> None:
    outside = Outside(np.zeros(2, np.int64), Inside(np.array([7, 1], np.int32), 0.5), 8)
    assert double(outside, 5) == (1 + 2 + 4 + 8 + 8) / 2
    assert outside.wide.tolist() == [23, 0]
    assert outside.inside.narrow.tolist() == [7, 8]
    changed = outside._replace(inside=Inside(np.array([0, 3], np.int32), 2.0), limit=1)
    assert double(changed, 2) == 2.0 * (23 + 3 + 1)


def test_a_tuple_with_another_kind_of_array_is_another_type() -> None:
    outside = Outside(np.zeros(1, np.int64), Inside(np.array([0, 5], np.int32), 1.0), 9)
    assert double(outside, 1) == 5.0
    unlike = outside._replace(wide=np.zeros(2, np.int32))
    assert double(unlike, 1) == 9.0
    assert len(double.signatures) == 2  # type: ignore[attr-defined]

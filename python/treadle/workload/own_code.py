"""Generators and readers of a user's own: a function in a Python file, or one that an installed package offers.

A generator is called as ``function(seed, **parameters)``, a reader as ``function(path, seed)``; both return a workload
or jobs in any order. A package offers them as entry points of the groups `GENERATORS` and `READERS`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final, cast

from treadle.config.trust import reason_against
from treadle.words import nearest
from treadle.workload.job import Job, Workload, arranged
from treadle.workload.traces.reading import WorkloadError

GENERATORS: Final = "treadle.generators"
READERS: Final = "treadle.readers"
_OF_FILE: Final = re.compile(r"(.+\.py):([A-Za-z_]\w*)")

Function = Callable[..., Any]


def offered(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, in order of names."""
    return {each.name: each for each in sorted(entry_points(group=group), key=lambda each: each.name)}


def place_of(text: str) -> tuple[str, str] | None:
    """Return the file and the function that ``FILE.py:FUNCTION`` names; None if a text is nothing of the kind."""
    match = _OF_FILE.fullmatch(text)
    return (match[1], match[2]) if match else None


def offered_function(group: str, name: str, field: str) -> Function:
    """Return what an installed package offers under a name.

    Args:
        group: `GENERATORS` or `READERS`
        name: of the entry point
        field: what errors call the place that names it

    Raises:
        WorkloadError: there is none, or it cannot be imported.
    """
    known = offered(group)
    if name not in known:
        raise WorkloadError(
            f"{field}: no installed package offers {name!r} in {group}{nearest(name, known)}; "
            f"there {'are ' + ', '.join(known) if known else 'is none'}"
        )
    try:
        return _callable(known[name].load(), f"{field}: {name} ({known[name].value})")
    except WorkloadError:
        raise
    except Exception as error:
        raise WorkloadError(f"{field}: {name} ({known[name].value}) cannot be imported: {_said(error)}") from error


def function_of_file(file: Path, name: str, field: str) -> Function:
    """Run a Python file that nobody else may write to; return the function of that name. Errors: `offered_function`."""
    try:
        reason = reason_against(file)
        source = file.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{field}: {file}: {error.strerror}; check the path") from error
    if reason:
        raise WorkloadError(f"{field}: {reason}")
    known = f"treadle_own_{hashlib.sha256(str(file.absolute()).encode() + source).hexdigest()[:16]}"
    module = sys.modules.get(known)
    if module is None:
        spec = importlib.util.spec_from_file_location(known, file)
        if spec is None or spec.loader is None:
            raise WorkloadError(f"{field}: {file} is no Python file; name one that ends in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module  # what its own classes refer to
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[known]
            raise WorkloadError(f"{field}: {file} cannot be run: {_said(error, file)}") from error
    found = getattr(module, name, None)
    if found is None:
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise WorkloadError(f"{field}: {file} has no function {name!r}{nearest(name, functions)}; write it there")
    return _callable(found, f"{field}: {file}:{name}")


def _callable(found: Any, what: str) -> Function:
    if not callable(found):
        raise WorkloadError(f"{what} is no function; name one that returns jobs")
    return cast(Function, found)


def made(function: Function, field: str, *given: Any, **parameters: Any) -> Workload:
    """Call a generator or a reader, and return its jobs as a workload.

    Raises:
        WorkloadError: it raises something, or returns no jobs.
    """
    file = Path(getattr(getattr(function, "__code__", None), "co_filename", "") or "unknown")
    try:
        found = function(*given, **parameters)
        if isinstance(found, Iterable) and not isinstance(found, Workload | str | bytes | Mapping):
            found = tuple(found)  # here a generator function runs
    except WorkloadError:
        raise
    except Exception as error:
        raise WorkloadError(f"{field}: {_said(error, file)}") from error
    if isinstance(found, tuple):
        strange = next((each for each in found if not isinstance(each, Job)), None)
        if strange is None:
            return arranged(found)
        found = strange
    if not isinstance(found, Workload):
        raise WorkloadError(
            f"{field}: returned {type(found).__name__}; return a treadle.simulate.Workload, or Jobs "
            "(docs/workloads.md, Readers and generators of your own)"
        )
    return found


def _said(error: Exception, file: Path | None = None) -> str:
    """Return what was raised, and at which line of a file."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if file and at.filename == str(file)]
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    place = f"{file.name}:{lines[-1]}: " if file and lines else ""
    return f"{place}{type(error).__name__}: {error}"

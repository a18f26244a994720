"""The formats of workloads, how each is recognized, and the one function that reads them all.

Generators and readers of a user's own: a function in a Python file, or one that an installed package offers.

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
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final, cast

from treadle.config.trust import reason_against
from treadle.errors import nearest
from treadle.workload.job import Job, Workload, arranged
from treadle.workload.traces.clusters import BATCH_TASKS_FILE as TASKS_CSV
from treadle.workload.traces.clusters import COLUMNS, TASKS_FILE, TASKS_HEADER, read_alibaba, read_google
from treadle.workload.traces.hadoop import read_rumen, read_sls, read_synth
from treadle.workload.traces.own import HEADER, read_dags, read_own
from treadle.workload.traces.reading import SAMPLE_CHARACTERS, Progress, WorkloadError, find_file, read_text, wrong
from treadle.workload.traces.simulators import START, TABLES, read_eagle, read_omega
from treadle.workload.traces.swim import read_swim
from treadle.workload.traces.tpch import PROFILES_HEADER, read_tpch

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


_FIELD: Final = re.compile(r'"([^"\\]+)"\s*:')


@dataclass(frozen=True, slots=True)
class Content:
    """What a format is recognized by: the start of a file, or the names in a folder."""

    path: Path
    start: str
    """The first characters; empty for a folder."""

    @property
    def lines(self) -> list[str]:
        """The first lines that are not empty, without the last, which may be cut off unless it is the only one."""
        lines = [line.strip() for line in self.start.splitlines()]
        found = [line for line in lines if line]
        return found[:-1] if len(self.start) >= SAMPLE_CHARACTERS and len(found) > 1 else found

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path.is_dir()

    @property
    def fields(self) -> set[str]:
        """What could be names of JSON fields: all strings followed by a colon."""
        return set(_FIELD.findall(self.start))


@dataclass(frozen=True, slots=True)
class Format:
    """A format and its reader."""

    name: str
    summary: str
    objection: Callable[[Content], str]
    """Returns why a content is not of this format; empty if it is."""
    read: Callable[..., Workload]
    """Takes the path, ``progress`` and the format's own options."""
    seeded: bool = False
    """Whether the file only says how jobs are drawn, so that ``seed`` is one of the options."""


def _json_with(*fields: str) -> Callable[[Content], str]:
    def objection(content: Content) -> str:
        if content.is_folder:
            return "a folder"
        if content.start.lstrip()[:1] not in ("{", "["):
            return "no JSON"
        return "" if content.fields.intersection(fields) else f"no field {' or '.join(fields)}"

    return objection


def _own(content: Content) -> str:
    if content.is_folder:
        return "a folder"
    if content.start.lstrip()[:1] != "{":
        return "no JSON object"
    is_own = HEADER in content.fields or {"arrival_ms", "stages"} <= content.fields
    return "" if is_own else "no fields arrival_ms and stages"


def _dags(content: Content) -> str:
    if content.is_folder:
        return "a folder"
    if content.start.lstrip()[:1] != "{":
        return "no JSON object"
    return "" if {"machines", "capacity", "stages"} <= content.fields else "no fields machines, capacity and stages"


def _headed(header: str, file: str) -> Callable[[Content], str]:
    def objection(content: Content) -> str:
        if content.is_folder:
            return "" if find_file(content.path, file) else f"no {file} in the folder"
        return "" if content.lines[:1] == [header] else f"the first line is not {header[:40]}..."

    return objection


def _not_alibaba(content: Content) -> str:
    if content.is_folder:
        return "" if find_file(content.path, TASKS_CSV) else f"no {TASKS_CSV} in the folder"
    for line in content.lines[:5]:
        fields = line.split(",")
        numbers = [field for at, field in enumerate(fields) if at in (1, 5, 6, 7, 8)]
        if len(fields) != len(COLUMNS) or not all(not field or _is_number(field) for field in numbers):
            return "a line is not of nine columns such as M1,1,j_1,1,Terminated,87,90,100.0,0.5"
    return "" if content.lines else "no line"


def _not_eagle(content: Content) -> str:
    if content.is_folder:
        return "a folder"
    for line in content.lines[:5]:
        fields = line.split()
        if len(fields) < 4 or not all(map(_is_number, fields)):
            return "a line is not of four or more numbers"
        if len(content.start) < SAMPLE_CHARACTERS and float(fields[1]) != len(fields) - 3:
            return "the second number is not how many follow the third"
    return "" if content.lines else "no line"


def _not_swim(content: Content) -> str:
    if content.is_folder:
        return "a folder"
    for line in content.lines[:5]:
        fields = line.split("\t")
        if len(fields) not in (6, 7) or not all(map(_is_number, fields[1:6])):
            return "a line is not of a name and five numbers separated by tabs"
    return "" if content.lines else "no line"


def _not_omega(content: Content) -> str:
    folder = content.path if content.is_folder else content.path.parent
    if not content.is_folder and not any(part in content.path.name for part in (START, *TABLES)):
        return "not one of Omega's tables by its name"
    missing = [part for part in (START, *TABLES) if not any(folder.glob(f"*{part}*.log*"))]
    return f"no *{missing[0]}*.log in the folder" if missing else ""


FORMATS: Final[dict[str, Format]] = {
    known.name: known
    for known in (
        Format("treadle", "Treadle's own: a job a line, as JSON", _own, read_own),
        Format("dag", "DAGs to plan, as `treadle dags` writes them", _dags, read_dags),
        Format("sls", "SLS JSON of Hadoop's load simulator", _json_with("job.tasks"), read_sls),
        Format(
            "synth",
            "SYNTH JSON of Hadoop's load simulator",
            _json_with("job_classes", "workload_weight"),
            read_synth,
            True,
        ),
        Format("rumen", "Rumen's JSON of finished MapReduce jobs", _json_with("jobID", "mapTasks"), read_rumen),
        Format("google", "extract of Google's trace of 2011", _headed(TASKS_HEADER, TASKS_FILE), read_google),
        Format("alibaba", "batch tasks of Alibaba's trace of 2018", _not_alibaba, read_alibaba),
        Format("eagle", "trace of the Sparrow, Hawk and Eagle simulators", _not_eagle, read_eagle),
        Format("tpch", "TPC-H DAGs measured on Spark", _headed(PROFILES_HEADER, "profiles.csv"), read_tpch),
        Format("swim", "SWIM's samples of Facebook's clusters", _not_swim, read_swim),
        Format("omega", "tables of the Omega lightweight simulator", _not_omega, read_omega, True),
    )
}
"""In the order in which they are tried."""


def read_workload(
    path: Path,
    format: str | None = None,  # noqa: A002 (as the option of the command is called)
    *,
    progress: Progress | None = None,
    seed: int | None = None,
    **options: Any,
) -> Workload:
    """Read a file, plain or packed by xz or gzip, or a folder of files that belong together.

    Args:
        path: the file or folder.
        format: a name of `FORMATS`; a reader of the user's own, as an installed package offers it or as
            ``FILE.py:FUNCTION``; None: recognized by the content.
        progress: called now and then with the share that is read.
        seed: of formats that only say how jobs are drawn (`Format.seeded`); others do not look at it.
        options: other ones of the format's own reader.

    Raises:
        WorkloadError: nothing can be read there, no format fits (the text says why each does not), or the content is
            wrong, with its line or record and field.
    """
    own = None if format is None or format in FORMATS else _own_reader(format)
    if not path.exists():
        raise wrong(path, "", "there is no such file or folder")
    if own is not None:
        return made(own, f"{path}: format {format}", path, seed)
    known = FORMATS[format or recognised(path)]
    if known.seeded and seed is not None:
        options["seed"] = seed
    found = known.read(path, progress=progress, **options)
    if not found.jobs:
        raise wrong(path, "", f"there is no job in it, read as {known.name}; look whether it is the right file")
    return found


def _own_reader(name: str) -> Function:
    """Return a reader of the user's own.

    Raises:
        WorkloadError: there is none of that name, or it cannot be used.
    """
    place = place_of(name)
    if place is not None:
        return function_of_file(Path(place[0]), place[1], "format")
    if name in (own := offered(READERS)):
        return offered_function(READERS, name, "format")
    raise WorkloadError(f"there is no format {name!r}; there are {', '.join((*FORMATS, *own))}, or FILE.py:FUNCTION")


def recognised(path: Path) -> str:
    """Return the name of the format that a file or folder has by its content.

    Raises:
        WorkloadError: none fits, or nothing can be read there.
    """
    content = Content(path, "" if path.is_dir() else read_text(path, SAMPLE_CHARACTERS))
    if not path.is_dir() and not content.start.strip():
        raise wrong(path, "", "the file is empty; name one with jobs (docs/workloads.md)")
    objections = {}
    for known in FORMATS.values():
        objection = known.objection(content)
        if not objection:
            return known.name
        objections[known.name] = objection
    reasons = "".join(f"\n  {name}: {reason}" for name, reason in objections.items())
    raise wrong(path, "", f"this is none of the formats known; name the right one with the format option{reasons}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""Workload formats, their detection, and the common reader.

Treadle's own format has a job per line as a JSON object (docs/workloads.md).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TextIO, cast

import numpy as np
from pydantic import Field

from treadle.config.part_files import where
from treadle.config.trust import reason_against
from treadle.dag import (
    Amounts,
    Dag,
    DagError,
    DagLine,
    Line,
    Number,
    Stage,
    TwiceError,
    Whole,
    checked,
    each_once,
    ordered,
)
from treadle.errors import nearest
from treadle.workload.clusters import (
    BATCH_TASKS_FILE,
    PROFILES_FILE,
    PROFILES_HEADER,
    TASKS_FILE,
    TASKS_HEADER,
    read_alibaba,
    read_google,
    read_swim,
    read_tpch,
)
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.reading import (
    MS_MAX,
    SAMPLE_CHARACTERS,
    TASKS_MAX,
    WorkloadError,
    find_file,
    read_lines,
    read_text,
    wrong,
)
from treadle.workload.simulators import read_rumen, read_sls, read_synth

HEADER: Final = "treadle_workload"
VERSION: Final = 1

Ms = Annotated[int, Number, Field(ge=0, le=MS_MAX)]


class StageLine(Line):
    """A stage of a job: tasks with the same resources and predecessors."""

    id: Whole
    demand: Amounts
    tasks: Annotated[int | None, Number, Field(ge=0, le=TASKS_MAX)] = None
    """Their number; with ``durations_ms`` its length."""
    duration_ms: Ms | None = None
    """Duration of one task in ms; with ``durations_ms`` their mean."""
    durations_ms: tuple[Ms, ...] | None = None
    """Duration of each task in ms."""
    parents: tuple[Whole, ...] = ()
    one_to_one: tuple[Whole, ...] = ()
    name: str = ""
    hosts: tuple[tuple[str, ...], ...] | None = None
    """For each task the nodes with its input."""

    def stage(self) -> Stage:
        """Return the stage.

        Raises:
            DagError: fields are inconsistent; the text names them.
        """
        each = None if self.durations_ms is None else np.array(self.durations_ms, np.int64)
        tasks = self.tasks if each is None else len(each)
        if tasks is None:
            raise DagError(f"stage {self.id}: tasks: missing; give how many there are, or durations_ms")
        if self.tasks not in (None, tasks):
            raise DagError(f"stage {self.id}: tasks: is {self.tasks}, but there are {tasks} durations_ms; drop one")
        if self.hosts is not None and len(self.hosts) != tasks:
            raise DagError(f"stage {self.id}: hosts: has {len(self.hosts)} lists; give one for each of {tasks} tasks")
        mean_ms = self.duration_ms
        if mean_ms is None and each is not None:
            mean_ms = round(float(each.mean())) if len(each) else 0
        if mean_ms is None:
            raise DagError(f"stage {self.id}: duration_ms: missing; give a task's duration, or durations_ms")
        parents, paired = tuple(dict.fromkeys(self.parents)), frozenset(self.one_to_one)
        return Stage(self.id, tasks, mean_ms, self.demand, parents, paired, each, self.name)


class JobLine(Line):
    """A job, as a line."""

    id: str
    arrival_ms: Ms
    stages: tuple[StageLine, ...]
    framework: Literal["mapreduce", "tez", "spark"] = "tez"
    name: str = ""
    user: str = ""
    queue: str = ""
    tags: tuple[str, ...] = ()
    priority: Annotated[int, Number, Field(ge=0, le=2**31 - 1)] = 0

    def job(self) -> Job:
        """Return the job.

        Raises:
            DagError: its stages are inconsistent.
        """
        stages = tuple(stage.stage() for stage in self.stages)
        dag = ordered(self.id, stages) if stages else Dag(self.id, ())
        hosts = {stage.id: stage.hosts for stage in self.stages if stage.hosts is not None}
        framework, names = Framework(self.framework), (self.name, self.user, self.queue)
        return Job(self.id, self.arrival_ms, dag, framework, *names, self.tags, hosts, self.priority)


class HeaderLine(Line):
    """The first, optional line."""

    version: Annotated[int, Number, Field(ge=VERSION, le=VERSION, alias=HEADER)]
    notes: tuple[str, ...] = ()


def _read_own(path: Path) -> Workload:
    """Read jobs, one per line, in any order."""
    jobs: list[Job] = []
    notes: tuple[str, ...] = ()
    tasks = 0
    line_of: dict[str, int] = {}
    for number, text in read_lines(path):
        at = f"line {number}"
        try:
            value = _object(text)
            if HEADER in value:
                notes = checked(HeaderLine, "", value).notes
                continue
            jobs.append(checked(JobLine, "", value).job())
        except DagError as error:
            raise wrong(path, at, str(error).removeprefix(": ")) from None
        first = line_of.setdefault(jobs[-1].id, number)
        if first != number:
            raise wrong(path, at, f"two jobs have the id {jobs[-1].id}, this one and that of line {first}; rename one")
        tasks += jobs[-1].dag.tasks
        if tasks > TASKS_MAX:
            raise wrong(path, at, f"all jobs together have more than {TASKS_MAX} tasks")
    if not jobs:
        raise wrong(path, "", "there is no job in it; write one JSON object a line")
    try:
        return arranged(jobs, notes)
    except WorkloadError as error:
        raise wrong(path, "", str(error)) from None


def _read_dags(path: Path) -> Workload:
    """Read the DAGs that `treadle lab dags` writes, without their machines, as a job each that arrives at time 0."""
    names: dict[str, int] = {}
    jobs = []
    for number, text in read_lines(path):
        try:
            line = checked(DagLine, "", _object(text))
            dag = ordered(line.name, tuple(stage.stage() for stage in line.stages))
        except DagError as error:
            raise wrong(path, f"line {number}", str(error).removeprefix(": ")) from None
        names[dag.name] = count = names.get(dag.name, 0) + 1
        jobs.append(Job(dag.name if count == 1 else f"{dag.name}_{count}", 0, dag, name=dag.name))
    return arranged(jobs, ("machines and capacity of the DAGs are not kept; all jobs arrive at time 0",))


def write_own(workload: Workload, stream: TextIO) -> None:
    """Write a workload so that `read_workload` returns the same."""
    stream.write(json.dumps({HEADER: VERSION, "notes": list(workload.notes)}) + "\n")
    for job in workload.jobs:
        fields = {"id": job.id, "arrival_ms": job.arrival_ms, "framework": job.framework.value}
        for field in ("name", "user", "queue", "priority", "tags"):
            if value := getattr(job, field):
                fields[field] = value
        stages = [_stage_fields(stage, job) for stage in job.dag.stages]
        stream.write(json.dumps(fields | {"stages": stages}) + "\n")


def _stage_fields(stage: Stage, job: Job) -> dict[str, Any]:
    """Return the fields of a stage's object, except those with default values."""
    each_ms = stage.durations_ms
    fields = {
        "id": stage.id,
        "demand": dict(stage.demand),
        "tasks": stage.tasks if each_ms is None else None,
        "duration_ms": stage.duration_ms,
        "durations_ms": None if each_ms is None else each_ms.tolist(),
        "parents": stage.parents or None,
        "one_to_one": sorted(stage.one_to_one) or None,
        "name": stage.name or None,
        "hosts": job.hosts.get(stage.id),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object of a line.

    Raises:
        DagError: the line is not one.
    """
    try:
        value = json.loads(text, object_pairs_hook=each_once)
    except TwiceError as error:
        raise DagError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise DagError(f"this is no JSON ({error}); write one JSON object a line") from None
    if not isinstance(value, dict):
        raise DagError("this is no JSON object; write one a line")
    return value


GENERATORS: Final = "treadle.generators"
READERS: Final = "treadle.readers"
_OF_FILE: Final = re.compile(r"(.+\.py):([A-Za-z_]\w*)")

Function = Callable[..., Any]


def offered(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, in order of names."""
    return {each.name: each for each in sorted(entry_points(group=group), key=lambda each: each.name)}


def place_of(text: str) -> tuple[str, str] | None:
    """Return the file and the function in ``FILE.py:FUNCTION``; None for another form."""
    match = _OF_FILE.fullmatch(text)
    return (match[1], match[2]) if match else None


def offered_function(group: str, name: str, field: str) -> Function:
    """Return the function that an installed package offers under a name.

    Args:
        group: `GENERATORS` or `READERS`
        name: of the entry point
        field: location of the name, for errors

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
        text = f"{type(error).__name__}: {error}"
        raise WorkloadError(f"{field}: {name} ({known[name].value}) cannot be imported: {text}") from error


def function_of_file(file: Path, name: str, field: str) -> Function:
    """Execute a Python file that only this user may write; return its function. Errors: `offered_function`."""
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
        sys.modules[known] = module  # required by its own classes
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[known]
            raise WorkloadError(f"{field}: {file} cannot be run: {where(error, str(file.absolute()))}") from error
    function = getattr(module, name, None)
    if function is None:
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise WorkloadError(f"{field}: {file} has no function {name!r}{nearest(name, functions)}; write it there")
    return _callable(function, f"{field}: {file}:{name}")


def _callable(function: Any, what: str) -> Function:
    if not callable(function):
        raise WorkloadError(f"{what} is not a function; name one that returns jobs")
    return cast(Function, function)


def made(function: Function, field: str, *given: Any, **parameters: Any) -> Workload:
    """Call a generator or a reader, and return its jobs as a workload.

    Raises:
        WorkloadError: it raises an exception, or returns no jobs.
    """
    file = Path(getattr(getattr(function, "__code__", None), "co_filename", "") or "unknown")
    try:
        produced = function(*given, **parameters)
        if isinstance(produced, Iterable) and not isinstance(produced, Workload | str | bytes | Mapping):
            produced = tuple(produced)  # here a generator function runs
    except WorkloadError:
        raise
    except Exception as error:
        raise WorkloadError(f"{field}: {where(error, str(file))}") from error
    if isinstance(produced, tuple):
        strange = next((each for each in produced if not isinstance(each, Job)), None)
        if strange is None:
            return arranged(produced)
        produced = strange
    if not isinstance(produced, Workload):
        raise WorkloadError(
            f"{field}: returned {type(produced).__name__}; return a treadle.simulate.Workload, or Jobs "
            "(docs/workloads.md, Readers and generators of your own)"
        )
    return produced


_FIELD: Final = re.compile(r'"([^"\\]+)"\s*:')
"""A possible name of a JSON field: any string followed by a colon."""


def _first_lines(start: str) -> list[str]:
    """Return up to five nonempty lines of a file; a last one that may be cut off only if there is no other."""
    lines = [line.strip() for line in start.splitlines() if line.strip()]
    return (lines[:-1] if len(start) >= SAMPLE_CHARACTERS and len(lines) > 1 else lines)[:5]


@dataclass(frozen=True, slots=True)
class Format:
    """A format and its reader."""

    name: str
    summary: str
    objection: Callable[[str], str]
    """Returns why a file with this beginning does not have this format; empty if it does."""
    read: Callable[..., Workload]
    """Takes the path, and ``seed`` if it is `seeded`."""
    file: str = ""
    """The file of it in a folder; empty: it is a single file."""
    seeded: bool = False
    """Whether the file only has distributions, which are drawn from."""


def _json_with(why_not: str, *fields: set[str], begins: str = "{[") -> Callable[[str], str]:
    """Return the objection to a file that is no JSON, or has no one of these sets of fields."""

    def objection(start: str) -> str:
        if not start.lstrip().startswith(tuple(begins)):
            return "no JSON object" if begins == "{" else "no JSON"
        return "" if any(some <= {*_FIELD.findall(start)} for some in fields) else why_not

    return objection


def _headed(header: str) -> Callable[[str], str]:
    return lambda start: "" if _first_lines(start)[:1] == [header] else f"the first line is not {header[:40]}..."


def _not_alibaba(start: str) -> str:
    for line in _first_lines(start):
        fields = line.split(",")
        if len(fields) != 9 or not all(not fields[at] or _is_number(fields[at]) for at in (1, 5, 6, 7, 8)):
            return "a line is not of nine columns such as M1,1,j_1,1,Terminated,87,90,100.0,0.5"
    return "" if start.strip() else "no line"


def _not_swim(start: str) -> str:
    for line in _first_lines(start):
        fields = line.split("\t")
        if len(fields) not in (6, 7) or not all(map(_is_number, fields[1:6])):
            return "a line is not of a name and five numbers separated by tabs"
    return "" if start.strip() else "no line"


_OWN: Final = _json_with("no fields arrival_ms and stages", {HEADER}, {"arrival_ms", "stages"}, begins="{")
_DAGS: Final = _json_with("no fields machines, capacity and stages", {"machines", "capacity", "stages"}, begins="{")
_SLS: Final = _json_with("no field job.tasks", {"job.tasks"})
_SYNTH: Final = _json_with("no field job_classes or workload_weight", {"job_classes"}, {"workload_weight"})
_RUMEN: Final = _json_with("no field jobID or mapTasks", {"jobID"}, {"mapTasks"})

FORMATS: Final[dict[str, Format]] = {
    known.name: known
    for known in (
        Format("treadle", "Treadle's own: a job a line, as JSON", _OWN, _read_own),
        Format("dag", "DAGs to plan, as `treadle lab dags` writes them", _DAGS, _read_dags),
        Format("sls", "SLS JSON of Hadoop's load simulator", _SLS, read_sls),
        Format("synth", "SYNTH JSON of Hadoop's load simulator", _SYNTH, read_synth, seeded=True),
        Format("rumen", "Rumen's JSON of finished MapReduce jobs", _RUMEN, read_rumen),
        Format("google", "extract of Google's trace of 2011", _headed(TASKS_HEADER), read_google, TASKS_FILE),
        Format("alibaba", "batch tasks of Alibaba's trace of 2018", _not_alibaba, read_alibaba, BATCH_TASKS_FILE),
        Format("tpch", "TPC-H DAGs measured on Spark", _headed(PROFILES_HEADER), read_tpch, PROFILES_FILE),
        Format("swim", "SWIM's samples of Facebook's clusters", _not_swim, read_swim),
    )
}
"""In the order of detection."""


def read_workload(
    path: Path,
    format: str | None = None,  # noqa: A002 (as the option of the command is called)
    *,
    seed: int | None = None,
) -> Workload:
    """Read a file, plain or compressed by xz or gzip, or a folder of related files.

    Args:
        path: the file or folder.
        format: a name of `FORMATS`; a custom reader offered by an installed package or as ``FILE.py:FUNCTION``; None:
            detected by content.
        seed: for formats with distributions (`Format.seeded`); ignored by others.

    Raises:
        WorkloadError: it is unreadable, no format matches (the text says why for each), or the content is wrong, with
            its line or record and field.
    """
    own = None
    if format is not None and format not in FORMATS:
        if (place := place_of(format)) is not None:
            own = function_of_file(Path(place[0]), place[1], "format")
        elif format in (known := offered(READERS)):
            own = offered_function(READERS, format, "format")
        else:
            names = ", ".join((*FORMATS, *known))
            raise WorkloadError(f"there is no format {format!r}; there are {names}, or FILE.py:FUNCTION")
    if not path.exists():
        raise wrong(path, "", "there is no such file or folder")
    if own is not None:
        return made(own, f"{path}: format {format}", path, seed)
    chosen = FORMATS[format or recognised(path)]
    drawn = {"seed": seed} if chosen.seeded and seed is not None else {}
    workload = chosen.read(path, **drawn)
    if not workload.jobs:
        raise wrong(path, "", f"there is no job in it, read as {chosen.name}; look whether it is the right file")
    return workload


def recognised(path: Path) -> str:
    """Return the format of a file or folder, detected by content.

    Raises:
        WorkloadError: none matches, or it is unreadable.
    """
    start = None if path.is_dir() else read_text(path, SAMPLE_CHARACTERS)
    if start is not None and not start.strip():
        raise wrong(path, "", "the file is empty; name one with jobs (docs/workloads.md)")
    reasons = ""
    for known in FORMATS.values():
        if start is not None:
            objection = known.objection(start)
        elif known.file:
            objection = "" if find_file(path, known.file) else f"no {known.file} in the folder"
        else:
            objection = "a folder"
        if not objection:
            return known.name
        reasons += f"\n  {known.name}: {objection}"
    raise wrong(path, "", f"this is none of the formats known; name the right one with the format option{reasons}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

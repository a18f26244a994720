"""Workload formats, their detection, and the common reader.

Treadle's own format has a job per line as a JSON object (docs/workloads.md).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    COLUMNS,
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
    Progress,
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


def _read_own(path: Path, progress: Progress | None = None) -> Workload:
    """Read jobs, one per line, in any order."""
    jobs: list[Job] = []
    notes: tuple[str, ...] = ()
    tasks = 0
    line_of: dict[str, int] = {}
    for number, text in read_lines(path, progress):
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


def _read_dags(path: Path, progress: Progress | None = None) -> Workload:
    """Read the DAGs that `treadle lab dags` writes, without their machines, as a job each that arrives at time 0."""
    names: dict[str, int] = {}
    jobs = []
    for number, text in read_lines(path, progress):
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
        stream.write(json.dumps(dict(_job_fields(job))) + "\n")


def _job_fields(job: Job) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a job's line, except those with default values."""
    yield "id", job.id
    yield "arrival_ms", job.arrival_ms
    yield "framework", job.framework.value
    for field in ("name", "user", "queue", "priority"):
        if value := getattr(job, field):
            yield field, value
    if job.tags:
        yield "tags", list(job.tags)
    yield "stages", [dict(_stage_fields(stage, job)) for stage in job.dag.stages]


def _stage_fields(stage: Stage, job: Job) -> Iterator[tuple[str, Any]]:
    yield "id", stage.id
    yield "demand", dict(stage.demand)
    if stage.durations_ms is None:
        yield "tasks", stage.tasks
    yield "duration_ms", stage.duration_ms
    if stage.durations_ms is not None:
        yield "durations_ms", stage.durations_ms.tolist()
    if stage.parents:
        yield "parents", list(stage.parents)
    if stage.one_to_one:
        yield "one_to_one", sorted(stage.one_to_one)
    if stage.name:
        yield "name", stage.name
    if stage.id in job.hosts:
        yield "hosts", [list(names) for names in job.hosts[stage.id]]


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


@dataclass(frozen=True, slots=True)
class Content:
    """Input of format detection."""

    start: str
    """The first characters of a file."""

    @property
    def lines(self) -> list[str]:
        """The first nonempty lines, without the last, which may be cut off unless it is the only one."""
        lines = [line.strip() for line in self.start.splitlines()]
        filled = [line for line in lines if line]
        return filled[:-1] if len(self.start) >= SAMPLE_CHARACTERS and len(filled) > 1 else filled

    @property
    def fields(self) -> set[str]:
        """Possible names of JSON fields: all strings followed by a colon."""
        return set(_FIELD.findall(self.start))


@dataclass(frozen=True, slots=True)
class Format:
    """A format and its reader."""

    name: str
    summary: str
    objection: Callable[[Content], str]
    """Returns why a content does not have this format; empty if it does."""
    read: Callable[..., Workload]
    """Takes the path and ``progress``, and ``seed`` if it is `seeded`."""
    file: str = ""
    """The file of it in a folder; empty: it is a single file."""
    seeded: bool = False
    """Whether the file only has distributions, which are drawn from."""


def _json_with(*fields: str) -> Callable[[Content], str]:
    def objection(content: Content) -> str:
        if content.start.lstrip()[:1] not in ("{", "["):
            return "no JSON"
        return "" if content.fields.intersection(fields) else f"no field {' or '.join(fields)}"

    return objection


def _own(content: Content) -> str:
    if content.start.lstrip()[:1] != "{":
        return "no JSON object"
    is_own = HEADER in content.fields or {"arrival_ms", "stages"} <= content.fields
    return "" if is_own else "no fields arrival_ms and stages"


def _dags(content: Content) -> str:
    if content.start.lstrip()[:1] != "{":
        return "no JSON object"
    return "" if {"machines", "capacity", "stages"} <= content.fields else "no fields machines, capacity and stages"


def _headed(header: str) -> Callable[[Content], str]:
    return lambda content: "" if content.lines[:1] == [header] else f"the first line is not {header[:40]}..."


def _not_alibaba(content: Content) -> str:
    for line in content.lines[:5]:
        fields = line.split(",")
        numbers = [field for at, field in enumerate(fields) if at in (1, 5, 6, 7, 8)]
        if len(fields) != len(COLUMNS) or not all(not field or _is_number(field) for field in numbers):
            return "a line is not of nine columns such as M1,1,j_1,1,Terminated,87,90,100.0,0.5"
    return "" if content.lines else "no line"


def _not_swim(content: Content) -> str:
    for line in content.lines[:5]:
        fields = line.split("\t")
        if len(fields) not in (6, 7) or not all(map(_is_number, fields[1:6])):
            return "a line is not of a name and five numbers separated by tabs"
    return "" if content.lines else "no line"


FORMATS: Final[dict[str, Format]] = {
    known.name: known
    for known in (
        Format("treadle", "Treadle's own: a job a line, as JSON", _own, _read_own),
        Format("dag", "DAGs to plan, as `treadle lab dags` writes them", _dags, _read_dags),
        Format("sls", "SLS JSON of Hadoop's load simulator", _json_with("job.tasks"), read_sls),
        Format(
            "synth",
            "SYNTH JSON of Hadoop's load simulator",
            _json_with("job_classes", "workload_weight"),
            read_synth,
            seeded=True,
        ),
        Format("rumen", "Rumen's JSON of finished MapReduce jobs", _json_with("jobID", "mapTasks"), read_rumen),
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
    progress: Progress | None = None,
    seed: int | None = None,
) -> Workload:
    """Read a file, plain or compressed by xz or gzip, or a folder of related files.

    Args:
        path: the file or folder.
        format: a name of `FORMATS`; a custom reader offered by an installed package or as ``FILE.py:FUNCTION``; None:
            detected by content.
        progress: called at intervals with the fraction that is read.
        seed: for formats with distributions (`Format.seeded`); ignored by others.

    Raises:
        WorkloadError: it is unreadable, no format matches (the text says why for each), or the content is wrong, with
            its line or record and field.
    """
    own = None if format is None or format in FORMATS else _own_reader(format)
    if not path.exists():
        raise wrong(path, "", "there is no such file or folder")
    if own is not None:
        return made(own, f"{path}: format {format}", path, seed)
    known = FORMATS[format or recognised(path)]
    drawn = {"seed": seed} if known.seeded and seed is not None else {}
    workload = known.read(path, progress=progress, **drawn)
    if not workload.jobs:
        raise wrong(path, "", f"there is no job in it, read as {known.name}; look whether it is the right file")
    return workload


def _own_reader(name: str) -> Function:
    """Return a custom reader.

    Raises:
        WorkloadError: there is none of that name, or it is unusable.
    """
    place = place_of(name)
    if place is not None:
        return function_of_file(Path(place[0]), place[1], "format")
    if name in (own := offered(READERS)):
        return offered_function(READERS, name, "format")
    raise WorkloadError(f"there is no format {name!r}; there are {', '.join((*FORMATS, *own))}, or FILE.py:FUNCTION")


def recognised(path: Path) -> str:
    """Return the format of a file or folder, detected by content.

    Raises:
        WorkloadError: none matches, or it is unreadable.
    """
    content = None if path.is_dir() else Content(read_text(path, SAMPLE_CHARACTERS))
    if content is not None and not content.start.strip():
        raise wrong(path, "", "the file is empty; name one with jobs (docs/workloads.md)")
    reasons = ""
    for known in FORMATS.values():
        objection = _not_in_folder(path, known.file) if content is None else known.objection(content)
        if not objection:
            return known.name
        reasons += f"\n  {known.name}: {objection}"
    raise wrong(path, "", f"this is none of the formats known; name the right one with the format option{reasons}")


def _not_in_folder(folder: Path, file: str) -> str:
    if not file:
        return "a folder"
    return "" if find_file(folder, file) else f"no {file} in the folder"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""Reads files of one JSON object a line; every mistake names the file, the line, the field and the remedy.

The `dag` format: a DAG and its machines, one JSON object a line (docs/plan.md).
"""

from __future__ import annotations

import json
import lzma
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TextIO, TypeAlias, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_plain_validator_function

from treadle.dag.dag import MACHINES_MAX, DagError, Instance, Stage, check_fits, ordered
from treadle.errors import nearest

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
WHOLE_MAX: Final = 2**40
SHOWN_MAX: Final = 200
"""Characters of a wrong value that a message shows."""


class Line(BaseModel):
    """Base of all objects: other fields are refused, as they would be passed over in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Read = TypeVar("Read", bound=Line)


def _wrong(value: Any, remedy: str, why: str = "") -> PydanticCustomError:
    context = {"shown": json.dumps(value)[:SHOWN_MAX] + why, "remedy": remedy}
    return PydanticCustomError("given", "is {shown}; {remedy}", context)


class Reads(ABC):
    """Annotates a field with how its value is read, and with what to write where it is missing."""

    remedy: str

    @abstractmethod
    def read(self, value: Any) -> Any:
        """Return the value; raises what `_wrong` makes."""

    def __get_pydantic_core_schema__(self, *_: Any) -> CoreSchema:
        """Let pydantic call `read`."""
        return no_info_plain_validator_function(self.read)


class Whole(Reads):
    """A whole number from ``low`` to ``high``; 2.0 is one."""

    def __init__(self, low: int = 0, high: int = WHOLE_MAX) -> None:
        self.low, self.high = low, high
        self.remedy = f"give a whole number from {low} to {high}"

    def read(self, value: Any) -> int:
        """See the class."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.low <= value <= self.high or int(value) != value:
            raise _wrong(value, self.remedy)
        return int(value)


class Amount(Reads):
    """A number of 0 or more, not infinite."""

    remedy = "give a number of 0 or more"

    def read(self, value: Any) -> float:
        """See the class."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise _wrong(value, self.remedy)
        return float(value)


class Text(Reads):
    """A text; a whole number is taken as one."""

    def __init__(self, remedy: str) -> None:
        self.remedy = remedy

    def read(self, value: Any) -> str:
        """See the class."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise _wrong(value, self.remedy)
        text = str(value)
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise _wrong(value, self.remedy, ", of which a character is half")
        return text


AMOUNTS_REMEDY: Final = 'give amounts by resource, such as {"cpu": 1.0}'
Amounts: TypeAlias = dict[str, Annotated[float, Amount()]]
"""Amounts by resource, finite and not negative."""

_REMEDIES: Final = {
    "dict_type": AMOUNTS_REMEDY,
    "model_type": "give a list of objects",
    "list_type": "give a list",
    "tuple_type": "give a list",
}


def checked(model: type[Read], where: str, values: dict[str, Any]) -> Read:
    """Return an object as the model has it.

    Raises:
        DagError: it does not fit the schema; the message names the first error.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        detail: Any = error.errors()[0]
        raise DagError(f"{where}: {_place(detail['loc'])}: {_explained(detail, model)}") from None


def _place(location: tuple[str | int, ...]) -> str:
    """Return a place as messages show it: ``stages[0]: demand.cpu``."""
    place = ""
    for at, step in enumerate(location):
        if isinstance(step, int):
            place += f"[{step}]"
        else:
            place += (": " if isinstance(location[at - 1], int) else ".") * (at > 0) + step
    return place


def _explained(detail: Any, model: type[Line]) -> str:
    kind: str = detail["type"]
    last: str = detail["loc"][-1]
    for step in detail["loc"][:-1]:
        model = _inner(model, step)
    if kind == "extra_forbidden":
        known = tuple(model.model_fields)
        return f"unknown; the fields are {', '.join(known)}{nearest(last, known)}"
    if kind == "missing":
        remedies = [one.remedy for one in model.model_fields[last].metadata if isinstance(one, Reads)]
        return f"missing; {remedies[0] if remedies else _kind_of(model.model_fields[last])}"
    if kind == "too_short":
        return "empty; give at least one"
    if kind in _REMEDIES:
        return f"is {json.dumps(detail['input'])[:SHOWN_MAX]}; {_REMEDIES[kind]}"
    return str(detail["msg"])


def _kind_of(field: FieldInfo) -> str:
    return _REMEDIES["list_type"] if get_origin(field.annotation) is tuple else AMOUNTS_REMEDY


def _inner(model: type[Line], step: str | int) -> type[Line]:
    """Return the model of the objects that a field is a list of; else the model itself."""
    field = model.model_fields.get(str(step))
    inside = () if field is None else getattr(field.annotation, "__args__", ())
    return next((one for one in inside if isinstance(one, type) and issubclass(one, Line)), model)


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one object a line of a file, and where it stands; empty lines do not count.

    A file is unpacked if its name ends in ``.xz``.

    Raises:
        DagError: the file cannot be read or is empty, or a line is not a JSON object.
    """
    number = objects = 0
    try:
        with lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb") as stream:
            while line := stream.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX:
                    raise DagError(f"{path}:{number}: longer than {LINE_BYTES_MAX} bytes; write one DAG a line")
                if line.strip():
                    objects += 1
                    yield f"{path}:{number}", _object(path, number, line)
    except OSError as error:
        raise DagError(f"{path}: {error.strerror or error}; give the path of a readable file") from None
    except (lzma.LZMAError, EOFError) as error:
        raise DagError(f"{path}: not packed with xz ({error}); unpack it, or pack it anew") from None
    if not objects:
        raise DagError(f"{path}: empty; write one JSON object a line (docs/plan.md)")


class TwiceError(ValueError):
    """A JSON object has a field twice."""


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a hook of `json`, which by itself would take the last of equal fields.

    Raises:
        TwiceError: a field is there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise TwiceError(f"{twice[:SHOWN_MAX]}: is there twice; keep one")
    return found


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=each_once)
    except TwiceError as error:
        raise DagError(f"{path}:{number}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DagError(f"{path}:{number}: not JSON ({error}); write one JSON object a line") from None
    if not isinstance(value, dict):
        raise DagError(f"{path}:{number}: not a JSON object; write one JSON object a line")
    return value


TASKS_MAX: Final = 10_000_000
Id: TypeAlias = Annotated[int, Whole(-WHOLE_MAX)]


class StageLine(Line):
    """A stage, as an object of a line."""

    id: Id
    tasks: Annotated[int, Whole(0, TASKS_MAX)]
    duration_ms: Annotated[int, Whole()]
    demand: Amounts
    parents: tuple[Id, ...] = ()
    one_to_one: tuple[Id, ...] = ()
    name: Annotated[str, Text("give the stage a name, or none")] = ""

    def stage(self) -> Stage:
        """Return the stage; an id that a list has twice counts once."""
        parents, one_to_one = tuple(dict.fromkeys(self.parents)), frozenset(self.one_to_one)
        return Stage(self.id, self.tasks, self.duration_ms, self.demand, parents, one_to_one, name=self.name)


class DagLine(Line):
    """A DAG and its machines, as a line."""

    name: Annotated[str, Text("give the DAG a name")]
    machines: Annotated[int, Whole(1, MACHINES_MAX)]
    capacity: Amounts
    stages: tuple[StageLine, ...] = Field(min_length=1)


def read_instances(path: Path, machines: int | None = None) -> Iterator[Instance]:
    """Yield the DAGs of a file; ``machines`` replaces what the lines say.

    Raises:
        DagError: names the file, the line, the field and the remedy.
    """
    for where, values in json_lines(path):
        line = checked(DagLine, where, values if machines is None else values | {"machines": machines})
        try:
            dag = ordered(line.name, tuple(stage.stage() for stage in line.stages))
            check_fits(dag, line.capacity, line.machines)
            yield Instance(dag, line.capacity, line.machines)
        except DagError as error:
            raise DagError(f"{where}: {error}") from None


def write_instances(instances: Iterable[Instance], stream: TextIO) -> None:
    """Write DAGs so that `read_instances` returns the same; single task durations are not kept."""
    for instance in instances:
        stages = [_stage_json(stage) for stage in instance.dag.stages]
        line = {
            "name": instance.dag.name,
            "machines": instance.machines,
            "capacity": dict(instance.capacity),
            "stages": stages,
        }
        stream.write(json.dumps(line) + "\n")


def _stage_json(stage: Stage) -> dict[str, object]:
    values: dict[str, object] = {
        "id": stage.id,
        "tasks": stage.tasks,
        "duration_ms": stage.duration_ms,
        "demand": dict(stage.demand),
        "parents": list(stage.parents),
    }
    if stage.one_to_one:
        values["one_to_one"] = sorted(stage.one_to_one)
    if stage.name:
        values["name"] = stage.name
    return values

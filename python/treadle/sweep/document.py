"""SWEEP.yaml: which scenarios, policies, settings and seeds (docs/sweeps.md).

Which values a setting of a sweep has, and how it is put into a document.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from treadle.config.errors import ConfigError, Problem, unknown
from treadle.config.yaml_nodes import YamlDocument, text_of
from treadle.errors import UserError

Point = dict[str, Any]
"""A value for each setting that is varied, by its path."""

RANGES: Final = ("uniform", "log_uniform", "integers")


@dataclass(frozen=True, slots=True)
class Choice:
    """Values that are written out."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two bounds, which only a random search takes."""

    kind: str
    """One of `RANGES`; integers include both bounds."""
    low: float
    high: float

    def draw(self, chance: np.random.Generator) -> float | int:
        """Return a number by chance."""
        if self.kind == "integers":
            return int(chance.integers(int(self.low), int(self.high) + 1))
        if self.kind == "log_uniform":
            return float(math.exp(chance.uniform(math.log(self.low), math.log(self.high))))
        return float(chance.uniform(self.low, self.high))


Axis = Choice | Range


def axis_of(value: Any) -> Axis:
    """Return the axis that a value of `set` is.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)) in RANGES:
            kind, bounds = next(iter(value.items()))
            return _range(kind, bounds)
        raise ValueError(f"is a mapping; write a list of values, or one of {', '.join(RANGES)} with [LOW, HIGH]")
    if isinstance(value, list):
        if not value:
            raise ValueError("has no values; write at least one")
        return Choice(tuple(value))
    return Choice((value,))


def _range(kind: str, bounds: Any) -> Range:
    numbers = isinstance(bounds, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in bounds
    )
    if not numbers or len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise ValueError(f"{kind}: {bounds!r}; write [LOW, HIGH], two numbers of which the first is the smaller")
    if kind == "log_uniform" and bounds[0] <= 0:
        raise ValueError(f"{kind}: {bounds!r}; its numbers must be above 0")
    if kind == "integers" and any(int(each) != each for each in bounds):
        raise ValueError(f"{kind}: {bounds!r}; its bounds must be whole numbers")
    return Range(kind, bounds[0], bounds[1])


def grid(axes: Mapping[str, Axis]) -> Iterator[Point]:
    """Yield every combination of values; there must be no range among the axes."""
    values = [axis.values for axis in axes.values() if isinstance(axis, Choice)]
    for chosen in product(*values):
        yield dict(zip(axes, chosen, strict=True))


def drawn(axes: Mapping[str, Axis], count: int, seed: Sequence[int]) -> Iterator[Point]:
    """Yield combinations by chance, each once; fewer than ``count`` if there are not that many."""
    chance = np.random.default_rng(list(seed))
    seen: list[Point] = []
    for _ in range(100 * count):
        point = {path: _value(axis, chance) for path, axis in axes.items()}
        if point not in seen:
            seen.append(point)
            yield point
        if len(seen) == count:
            return


def _value(axis: Axis, chance: np.random.Generator) -> Any:
    if isinstance(axis, Range):
        return axis.draw(chance)
    return axis.values[int(chance.integers(len(axis.values)))]


def with_settings(document: Mapping[str, Any], point: Point) -> dict[str, Any]:
    """Return a document with settings at their paths, such as ``policy.order.window`` or ``cluster.nodes.0.count``.

    Raises:
        UserError: a path leads through what is no mapping and no list, or past a list's end.
    """
    changed = copy.deepcopy(dict(document))
    for path, value in point.items():
        _set(changed, path, copy.deepcopy(value))
    return changed


def _set(document: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    place: Any = document
    for at, step in enumerate(above):
        here = ".".join(above[:at]) or "the file"
        if isinstance(place, dict):
            if place.get(step) is None:
                place[step] = {}
            place = place[step]
        elif isinstance(place, list):
            place = place[_item(place, step, path, here)]
        else:
            raise UserError(f"{path}: {here} is {place!r}, which has no {step}; look at the path")
    if isinstance(place, list):
        place[_item(place, last, path, ".".join(above))] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise UserError(f"{path}: {'.'.join(above)} is {place!r}, which has no {last}; look at the path")


def _item(place: list[Any], step: str, path: str, here: str) -> int:
    if not step.isdecimal() or int(step) >= len(place):
        raise UserError(f"{path}: {here} is a list of {len(place)}; write a position from 0 to {len(place) - 1}")
    return int(step)


SEED_MAX: Final = 2**31

_FORMS: Final = {
    "scenarios": "write a file, or {scenario: FILE, set: {...}}, or {recording: DIR, set: {...}}",
    "policies": "write a file or a name, or {policy: FILE, set: {...}}",
    "search": "write {kind: grid} or {kind: random, policies: N}",
}
"""What a section of its own is written like."""
_REMEDIES: Final = {
    "tuple_type": "write a list: [...]",
    "dict_type": "write {PATH OF A SETTING: [VALUES]}",
    "string_type": "write a text",
    "string_too_short": "write a file or a name",
}
"""By the kind of mistake."""


class Model(BaseModel):
    """Base of all sections: other fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, arbitrary_types_allowed=True)


class Varied(Model):
    """A file, and which of its settings have which values."""

    name: str = Field(default="", description="In tables; else the file's.")
    values: dict[str, Any] = Field(default={}, alias="set", description="Values by the path of a setting.")

    @field_validator("values")
    @classmethod
    def _are_axes(cls, values: dict[str, Any]) -> dict[str, Axis]:
        axes = {}
        for path, value in values.items():
            try:
                axes[path] = axis_of(value)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
        return axes

    @property
    def axes(self) -> dict[str, Axis]:
        """The values of each setting."""
        return self.values


class VariedScenario(Varied):
    """A scenario, or the cluster and the jobs of a recording."""

    scenario: str | None = Field(default=None, min_length=1)
    recording: str | None = Field(
        default=None, min_length=1, description="A segment, or a folder of segments (docs/record-replay.md)."
    )

    @model_validator(mode="after")
    def _one_source(self) -> VariedScenario:
        if bool(self.scenario) == bool(self.recording):
            raise ValueError("write a file, or exactly one of {scenario: FILE} and {recording: DIR}")
        return self


class VariedPolicy(Varied):
    """A policy: a treadle.yaml, or the name of a ready-made one."""

    policy: str = Field(min_length=1)


class Search(Model):
    """Which of the combinations run."""

    kind: Literal["grid", "random"] = "grid"
    policies: int = Field(default=20, ge=1, le=100_000, description="Random: settings drawn of each policy.")
    scenarios: int = Field(default=0, ge=0, le=100_000, description="Random: of each scenario; 0: all combinations.")
    seed: int = Field(default=1, ge=0, le=SEED_MAX)


class Sweep(Model):
    """All of a sweep's file."""

    scenarios: tuple[VariedScenario, ...] = Field(min_length=1)
    policies: tuple[VariedPolicy, ...] = Field(min_length=1)
    seeds: int | tuple[int, ...] = Field(default=5, description="Which; a number is how many, from each scenario's on.")
    search: Search = Search()
    fairness: Literal["share_error", "jain"] = Field(
        default="share_error", description="What the Pareto front sets against the mean completion time."
    )
    share_error_max: float | None = Field(
        default=None, ge=0, le=1, description="The best setting's share error is at most this on average."
    )
    check: bool = Field(default=True, description="Check the simulator's invariants at every step.")
    allow_impossible: bool = Field(default=False, description="Go on with jobs that can never run.")

    @field_validator("scenarios", "policies", mode="before")
    @classmethod
    def _short_form(cls, value: Any, info: Any) -> Any:
        key = {"scenarios": "scenario", "policies": "policy"}[info.field_name]
        return [{key: each} if isinstance(each, str) else each for each in value] if isinstance(value, list) else value

    @field_validator("seeds", mode="before")
    @classmethod
    def _are_seeds(cls, value: Any) -> Any:
        each = value if isinstance(value, list) else [value]
        whole = all(isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= SEED_MAX for seed in each)
        if not whole or not each or value == 0 or len(set(each)) < len(each):
            raise ValueError(f"{value!r}; write how many seeds, or a list of different ones from 0 to {SEED_MAX}")
        return value

    @model_validator(mode="after")
    def _ranges_are_drawn(self) -> Sweep:
        for kind, entries, count in (
            ("policies", self.policies, 1),
            ("scenarios", self.scenarios, self.search.scenarios),
        ):
            if self.search.kind == "random" and count:
                continue
            for each in entries:
                path = next((path for path, axis in each.axes.items() if isinstance(axis, Range)), None)
                if path is not None:
                    need = "search: {kind: random}" if kind == "policies" else "search: {kind: random, scenarios: N}"
                    raise ValueError(
                        f"{kind}: {path} is a range, of which a grid has no values; write a list, or {need}"
                    )
        return self


def read_sweep(file: Path) -> Sweep:
    """Read a sweep's file.

    Raises:
        ConfigError: it cannot be read, or it has errors: the message names line, field and remedy.
    """
    document = YamlDocument(str(file), text_of(file))
    if not isinstance(document.value, dict):
        raise ConfigError(str(file), [Problem(1, "", "is no mapping; write scenarios: and policies: (docs/sweeps.md)")])
    try:
        return Sweep.model_validate(document.value)
    except ValidationError as error:
        details = error.errors()
        wrong = [each["loc"] for each in details]
        # a list whose entries are wrong counts as empty too, which needs no message
        details = [each for each in details if not (each["type"] == "too_short" and _within(each["loc"], wrong))]
        problems = [document.problem(_place(each["loc"]), _explain(each)) for each in details]
        raise ConfigError(str(file), problems) from error


def _within(place: tuple[Any, ...], wrong: list[tuple[Any, ...]]) -> bool:
    """Say whether something that is wrong lies below a place."""
    return any(len(each) > len(place) and each[: len(place)] == place for each in wrong)


def _place(place: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a place as it is in the file: of a key that is no text, that key."""
    steps = place[:-1] if place[-1:] == ("[key]",) else place
    listed = steps[:1] in (("scenarios",), ("policies",))
    return tuple(step if listed and at == 1 else str(step) for at, step in enumerate(steps))


def _explain(detail: Any) -> str:
    """Return what is wrong with a value and what is allowed, in one line."""
    place, kind = detail["loc"], detail["type"]
    if kind == "extra_forbidden":
        return unknown(str(place[-1]), _fields(place[:-1]))
    if kind == "invalid_key":
        return f"is no text; write one of {', '.join(_fields(place[:-1]))}"
    if place[-1:] == ("[key]",):
        return "is no text; write the path of a setting, such as policy.order.kind"
    if kind in _REMEDIES:
        return f"{detail['input']!r}; {_REMEDIES[kind]}"
    if kind == "model_type":
        return f"{detail['input']!r}; {_FORMS[place[0]]}"
    if kind == "missing":
        return "is missing; write it (docs/sweeps.md)"
    if kind == "too_short":
        return f"has {detail['ctx']['actual_length']}; at least {detail['ctx']['min_length']} must be written"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    return f"{detail['input']!r}: " + str(detail["msg"]).replace("Input should be", "it must be")


def _fields(place: tuple[Any, ...]) -> list[str]:
    kinds: dict[str, type[Model]] = {"scenarios": VariedScenario, "policies": VariedPolicy, "search": Search}
    fields = (kinds[place[0]] if place else Sweep).model_fields
    return [field.alias or name for name, field in fields.items()]

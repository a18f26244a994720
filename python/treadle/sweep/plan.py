"""SWEEP.yaml (docs/sweeps.md), and its runs.

Every variant of every scenario under every variant of every policy, with every seed.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.config.text import with_absolute_paths
from treadle.config.trust import untrusted
from treadle.config.yaml_nodes import YamlDocument, parse_model, text_of
from treadle.errors import ConfigError, Problem, UserError
from treadle.files import read_regular
from treadle.policy.catalogue import register_parts
from treadle.record.files import segments
from treadle.replay.model import reduce
from treadle.replay.seen import read_recorded
from treadle.shipped import find_policy
from treadle.simulate.batch import SEED_MAX, Scenario, check_trees
from treadle.simulator.engines_simulation import with_engines
from treadle.simulator.scenario import parse_scenario
from treadle.sweep.runs import Line, has_content, write_at_once
from treadle.wire.frames import WireError
from treadle.workload.formats import FORMATS, GENERATORS, READERS, offered, place_of, recognised, write_own

Point = dict[str, Any]
"""A value for each varied setting, by its path."""

RANGES: Final = ("uniform", "log_uniform", "integers")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two bounds, for random search only."""

    kind: str
    """One of `RANGES`; integers include both bounds."""
    low: float
    high: float

    def draw(self, chance: np.random.Generator) -> float | int:
        """Return a random number."""
        if self.kind == "integers":
            return int(chance.integers(int(self.low), int(self.high) + 1))
        if self.kind == "log_uniform":
            return float(math.exp(chance.uniform(math.log(self.low), math.log(self.high))))
        return float(chance.uniform(self.low, self.high))


Axis = tuple[Any, ...] | Range
"""Listed values, or a range."""


def axis_of(value: Any) -> Axis:
    """Return the axis of a value in `set`.

    Raises:
        ValueError: it is not an axis.
    """
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)) in RANGES:
            kind, bounds = next(iter(value.items()))
            return _range(kind, bounds)
        raise ValueError(f"is a mapping; write a list of values, or one of {', '.join(RANGES)} with [LOW, HIGH]")
    if isinstance(value, list):
        if not value:
            raise ValueError("has no values; write at least one")
        return tuple(value)
    return (value,)


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
    values = [axis for axis in axes.values() if not isinstance(axis, Range)]
    for chosen in product(*values):
        yield dict(zip(axes, chosen, strict=True))


def drawn(axes: Mapping[str, Axis], count: int, seed: Sequence[int]) -> Iterator[Point]:
    """Yield distinct random combinations; fewer than ``count`` if there are not that many."""
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
    return axis[int(chance.integers(len(axis)))]


def with_settings(document: Mapping[str, Any], point: Point) -> dict[str, Any]:
    """Return a document with settings at their paths, such as ``policy.order.window`` or ``cluster.nodes.0.count``.

    Raises:
        UserError: a path leads through a value that is neither a mapping nor a list, or past a list's end.
    """
    changed = copy.deepcopy(dict(document))
    for path, value in point.items():
        _set(changed, path, copy.deepcopy(value))
    return changed


def _set(document: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    place: Any = document
    for at, step in enumerate(above):
        key = _key(place, step, path, ".".join(above[:at]) or "the file")
        if isinstance(place, dict) and place.get(step) is None:
            place[step] = {}
        place = place[key]
    place[_key(place, last, path, ".".join(above))] = value


def _key(place: Any, step: str, path: str, here: str) -> str | int:
    """Return the key or position of a step of a path at a place, which is called ``here`` in errors."""
    if isinstance(place, dict):
        return step
    if not isinstance(place, list):
        raise UserError(f"{path}: {here} is {place!r}, which has no {step}; look at the path")
    if not step.isdecimal() or int(step) >= len(place):
        raise UserError(f"{path}: {here} is a list of {len(place)}; write a position from 0 to {len(place) - 1}")
    return int(step)


_REMEDIES: Final = {
    "scenarios": "write a file, or {scenario: FILE, set: {...}}, or {recording: DIR, set: {...}}",
    "policies": "write a file or a name, or {policy: FILE, set: {...}}",
    "search": "write {kind: grid} or {kind: random, policies: N}",
    "tuple_type": "write a list: [...]",
    "dict_type": "write {PATH OF A SETTING: [VALUES]}",
    "string_type": "write a text",
    "string_too_short": "write a file or a name",
}


class Section(BaseModel):
    """Base of all sections: unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, arbitrary_types_allowed=True)


class Varied(Section):
    """A file, and the values of some of its settings."""

    name: str = Field(default="", description="In tables; else the file's.")
    axes: dict[str, Any] = Field(default={}, alias="set", description="Values by the path of a setting.")

    @field_validator("axes")
    @classmethod
    def _are_axes(cls, values: dict[str, Any]) -> dict[str, Axis]:
        axes = {}
        for path, value in values.items():
            try:
                axes[path] = axis_of(value)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
        return axes


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


class Search(Section):
    """Which of the combinations run."""

    kind: Literal["grid", "random"] = "grid"
    policies: int = Field(default=20, ge=1, le=100_000, description="Random: settings drawn of each policy.")
    scenarios: int = Field(default=0, ge=0, le=100_000, description="Random: of each scenario; 0: all combinations.")
    seed: int = Field(default=1, ge=0, le=SEED_MAX)


class Sweep(Section):
    """All of a sweep's file."""

    scenarios: tuple[VariedScenario, ...] = Field(min_length=1)
    policies: tuple[VariedPolicy, ...] = Field(min_length=1)
    seeds: int | tuple[int, ...] = Field(default=5, description="Which; a number is how many, from each scenario's on.")
    search: Search = Search()
    fairness: Literal["share_deviation", "jain"] = Field(
        default="share_deviation", description="The Pareto front's figure next to the mean completion time."
    )
    share_deviation_max: float | None = Field(
        default=None, ge=0, le=1, description="The best setting's share deviation is at most this on average."
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
    return parse_model(document, Sweep, "docs/sweeps.md", "scenarios: and policies:", _REMEDIES)


BESIDE: Final = ("google", "tpch")
"""Formats whose readers read other files of the same folder."""

BYTES_MAX: Final = 4 << 30
"""Maximum total size of the files of a scenario: they are copied through memory."""


class Inputs:
    """Copies the input files of runs."""

    def __init__(self, folder: Path) -> None:
        """Store copies below a folder."""
        self.folder = folder
        self.taken: dict[str, None] = {}
        """The folders in lines, in order."""

    def scenario(self, document: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], str]:
        """Return a scenario that reads copies, and a digest of its entry points.

        Args:
            document: the scenario, already validated
            folder: the folder of its relative paths

        Raises:
            UserError: a file cannot be read or copied.
        """
        changed = copy.deepcopy(dict(document))
        workload, code = changed["workload"], ""
        format_, own = workload.get("format"), workload.get("own") or {}
        if workload.get("file"):
            workload["file"] = self._workload(folder / workload["file"], format_)
        place = place_of(format_ or "")
        if place is not None:
            workload["format"] = f"{self.file(folder / place[0])}:{place[1]}"
        elif format_ and format_ not in FORMATS:
            code = _entry_point(READERS, format_)
        if own.get("file"):
            own["file"] = self.file(folder / own["file"])
        elif own:
            code = _entry_point(GENERATORS, own["entry_point"])
        return self.policy(changed, folder), code

    def policy(self, document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return a document whose policies' parts are copies; see `scenario` for arguments and errors."""
        changed = copy.deepcopy(dict(document))
        for _, part in parts_of_files(changed):
            part["path"] = self.file(folder / part["path"])
        return changed

    def file(self, file: Path) -> str:
        """Copy a file; return the path of its copy below the folder."""
        return f"{self._take(file.parent, [file])}/{file.name}"

    def content(self, name: str, content: bytes) -> str:
        """Add the content of a file with a name; return its path below the folder."""
        return f"{self._keep([(name, content)])}/{name}"

    def _workload(self, place: Path, format_: str | None) -> str:
        if place.is_dir():
            return self._take(place, sorted(each for each in place.rglob("*") if each.is_file()))
        if place.is_file() and (format_ or recognised(place)) in BESIDE:
            beside = sorted(each for each in place.parent.iterdir() if each.is_file())
            return f"{self._take(place.parent, beside)}/{place.name}"
        return self.file(place)

    def _take(self, folder: Path, files: Sequence[Path]) -> str:
        contents, left = [], BYTES_MAX
        for file in files:
            name = file.relative_to(folder).as_posix()
            try:
                size = min(file.stat().st_size, left)
                content = read_regular(file, size)
            except OSError as error:
                raise UserError(f"{file}: {error.strerror}; check the path") from error
            if len(content) > size:
                raise UserError(f"{file}: longer than {BYTES_MAX} bytes with its files, or it grows; shorten it")
            contents.append((name, content))
            left -= size
        return self._keep(contents)

    def _keep(self, contents: Sequence[tuple[str, bytes]]) -> str:
        digest = hashlib.sha256()
        for name, content in contents:
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        known = digest.hexdigest()[:32]
        for name, content in contents:
            place = self.folder / known / name
            try:
                if not has_content(place, content, self.folder):
                    write_at_once(place, content, self.folder)
            except OSError as error:
                raise UserError(f"{place}: {error.strerror}; make room, or name another folder by --cache") from error
        self.taken[known] = None
        return known


def parts_of_files(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the custom parts of a treadle.yaml or a scenario, each with its path; those of engines too."""
    engines = {f"engines.{name}.": engine for name, engine in (document.get("engines") or {}).items()}
    for begin, place in ({"": document} | engines).items():
        for slot, part in ((place or {}).get("policy") or {}).items():
            if isinstance(part, dict) and part.get("kind") == "file":
                yield f"{begin}policy.{slot}", part


def _entry_point(group: str, name: str) -> str:
    """Return a text that differs between versions of an entry point: its distribution, and its module's text."""
    entry_point: EntryPoint | None = offered(group).get(name)
    if entry_point is None:
        return ""  # the reader of the jobs reports the error
    dist = f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist else ""
    try:
        source = inspect.getsource(inspect.getmodule(entry_point.load()) or Inputs)
    except (OSError, TypeError, Exception):
        source = ""
    return hashlib.sha256(f"{entry_point.value} {dist} {source}".encode()).hexdigest()


def scenario_of(place: Path, inputs: Inputs) -> tuple[dict[str, Any], list[str]]:
    """Return a scenario with a copy of a recording's jobs, and notes on losses.

    Args:
        place: a segment, or a folder of segments
        inputs: copies the jobs

    Raises:
        UserError: it is not a recording, or has no running job.
    """
    try:
        reduced = reduce(read_recorded(segments(place)))
    except WireError as error:
        raise UserError(f"{place}: a frame cannot be read: {error}") from error
    text = io.StringIO()
    write_own(reduced.workload(1), text)
    document: dict[str, Any] = json.loads(reduced.scenario.text or "{}")
    document["workload"] = {"file": inputs.content("jobs.jsonl", text.getvalue().encode()), "deal": True}
    return document, reduced.notes


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Variant:
    """A scenario or a policy with its settings."""

    name: str
    """A unique name."""
    entry: str
    """The name of the varied entry."""
    settings: Point
    text: str
    """Input of runs."""
    readable: str = ""
    """A policy as a treadle.yaml for other uses."""
    code: str = ""
    seeds: tuple[int, ...] = ()
    """For a scenario."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A run: the positions of its scenario and its policy, and its line."""

    scenario: int
    policy: int
    line: Line


@dataclass(frozen=True, slots=True)
class Plan:
    """All of a sweep's runs, in order."""

    scenarios: tuple[Variant, ...]
    policies: tuple[Variant, ...]
    runs: tuple[Planned, ...]
    settings: tuple[Settings, ...]
    """The settings of each policy, for compilation."""
    notes: tuple[str, ...] = ()
    """Differences between recordings and the models of their clusters."""


def plan_of(sweep: Sweep, file: Path, inputs: Inputs, *, trust_code: bool = False) -> Plan:
    """Return the runs of a sweep; relative paths start at its file's folder.

    Args:
        sweep: the sweep
        file: its source
        inputs: copies the input files of runs
        trust_code: whether Python files of its scenarios and policies may be executed

    Raises:
        UserError: a file is wrong, or becomes wrong with a setting; the text names both.
    """
    register_parts()
    notes: list[str] = []
    parse = partial(parse_settings, trust_code=trust_code)
    policies = _policies(sweep, file.parent, inputs, trust_code)  # first: without trust nothing is copied
    scenarios = _scenarios(sweep, file.parent, inputs, notes, trust_code)
    file_of_runs = str(inputs.folder / "treadle.yaml")
    settings = [_relabelled(each.name, parse, file_of_runs, each.text) for each in policies]
    for scenario in scenarios:
        model = parse_scenario(scenario.name, scenario.text, trust_code=trust_code)
        for policy, own in zip(policies, settings, strict=True):
            try:
                parse_engines = partial(with_engines, model, own, trust_code=trust_code)
                file_of_engines = str(inputs.folder / "scenario.yaml")
                whole = _relabelled(scenario.name, parse_engines, file_of_engines, scenario.text)
                check_trees(replace(whole, source=None), model, scenario.name)
            except UserError as error:
                raise UserError(f"{policy.name}: {error}") from error
    runs = [
        Planned(at, number, Line(scenario.text, policy.text, seed, sweep.check, sweep.allow_impossible, scenario.code))
        for at, scenario in enumerate(scenarios)
        for seed in scenario.seeds
        for number, policy in enumerate(policies)
    ]
    return Plan(tuple(scenarios), tuple(policies), tuple(runs), tuple(settings), tuple(notes))


def _scenarios(sweep: Sweep, folder: Path, inputs: Inputs, notes: list[str], trust_code: bool) -> list[Variant]:
    variants, parse = [], partial(parse_scenario, trust_code=trust_code)
    for at, entry in enumerate(sweep.scenarios):
        name, document, begin = _document(entry, folder, inputs, notes, trust_code)
        for point in _points(entry.axes, sweep.search, sweep.search.scenarios, (1, at)):
            label = _label(name, point)
            changed = _changed(document, point, label)
            model = _relabelled(label, parse, label, _dumped(changed))
            if not trust_code:
                _refuse_code(label, changed)
            copied, code = inputs.scenario(changed, begin)
            seeds = sweep.seeds
            chosen = tuple(range(model.seed, model.seed + seeds)) if isinstance(seeds, int) else seeds
            variants.append(Variant(label, name, point, _dumped(copied), code=code, seeds=chosen))
    return _distinct(variants, "scenarios")


def _refuse_code(label: str, document: dict[str, Any]) -> None:
    """Reject parts of a scenario's engines, before they are copied."""
    problems = [
        Problem(0, f"{place}.path", untrusted(str(part.get("path")))) for place, part in parts_of_files(document)
    ]
    if problems:
        raise ConfigError(label, problems)


def _document(
    entry: VariedScenario, folder: Path, inputs: Inputs, notes: list[str], trust_code: bool
) -> tuple[str, dict[str, Any], Path]:
    """Return name, document and folder of an entry; note the losses of a recording."""
    if entry.recording:
        place = folder / entry.recording
        document, lost = scenario_of(place, inputs)
        name = entry.name or place.absolute().stem
        notes += [f"{name}: {note}" for note in lost]
        return name, document, inputs.folder
    read = Scenario.read(folder / (entry.scenario or ""), trust_code=trust_code)
    return entry.name or read.folder.joinpath(read.file).stem, yaml.safe_load(read.text or ""), read.folder


def _policies(sweep: Sweep, folder: Path, inputs: Inputs, trust_code: bool) -> list[Variant]:
    variants, parse = [], partial(parse_settings, trust_code=trust_code)
    for at, entry in enumerate(sweep.policies):
        file = find_policy(entry.policy, folder, f"policies[{at}]")
        text = text_of(file)
        YamlDocument(str(file), text)  # bounds the size of the text
        document = yaml.safe_load(with_absolute_paths(text, file.parent)) or {}
        name = entry.name or file.stem
        for point in _points(entry.axes, sweep.search, sweep.search.policies, (2, at)):
            label = _label(name, point)
            changed = _changed(document, point, label)
            _relabelled(label if point else str(file), parse, str(file), _dumped(changed))
            copied = inputs.policy(changed, file.parent)
            variants.append(Variant(label, name, point, _dumped(copied), _dumped(changed)))
    return _distinct(variants, "policies")


def _points(axes: dict[str, Axis], search: Search, count: int, stream: tuple[int, int]) -> Iterator[Point]:
    if axes and search.kind == "random" and count:
        return drawn(axes, count, (search.seed, *stream))
    return grid(axes)


def _label(name: str, point: Point) -> str:
    """Return a name with the settings by the last components of their paths: as many as distinguish them."""
    shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in point.values())
    return " ".join([name, *(f"{short}={value}" for short, value in zip(_short(list(point)), shown, strict=True))])


def _short(paths: list[str]) -> list[str]:
    split = [path.removesuffix(".kind").split(".") for path in paths]  # order=srpt says as much as order.kind=srpt
    for count in range(1, max(map(len, split), default=0)):
        names = [".".join(steps[-count:]) for steps in split]
        if len(set(names)) == len(names):
            return names
    return paths


def _distinct(variants: list[Variant], kind: str) -> list[Variant]:
    """Return variants with unique names.

    Raises:
        UserError: two files have the same name.
    """
    entries: dict[str, int] = {}
    for each in variants:
        number = entries[each.name] = entries.get(each.name, 0) + 1
        if number > 1 and not each.settings:
            raise UserError(f"{kind}: two are called {each.name!r}; give one a name: {{name: ...}}")
    seen: dict[str, int] = {}
    distinct = []
    for each in variants:
        seen[each.name] = number = seen.get(each.name, 0) + 1
        distinct.append(each if entries[each.name] == 1 else replace(each, name=f"{each.name} #{number}"))
    return distinct


def _changed(document: Any, point: Point, label: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UserError(f"{label}: is not a mapping; write `key: value` lines")
    try:
        return with_settings(document, point)
    except UserError as error:
        raise UserError(f"{label}: {error}") from error


def _relabelled(label: str, parse: Callable[[str, str], T], file: str, text: str) -> T:
    """Parse a text that is not the content of a file: errors have the label instead of a file, and no line."""
    try:
        return parse(file, text)
    except ConfigError as error:
        raise ConfigError(label, [problem._replace(line=0) for problem in error.problems]) from error


class _Plain(yaml.SafeDumper):
    """Writes repeated values twice, because aliases are rejected."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dumped(document: Any) -> str:
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True)

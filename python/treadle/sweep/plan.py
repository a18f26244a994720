"""The runs that a sweep has: every variant of every scenario under every variant of every policy, with every seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from treadle.admin.install import find_policy, with_absolute_paths
from treadle.config.errors import ConfigError, Problem
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.config.trust import untrusted
from treadle.config.yaml_nodes import YamlDocument, text_of
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.simulate.policy_queues import check_trees
from treadle.simulate.scenario import Scenario
from treadle.simulator.scenario import Scenario as Model
from treadle.simulator.scenario import parse_scenario
from treadle.simulator.scenario_engines import with_engines
from treadle.sweep import recordings
from treadle.sweep.axes import Axis, Point, drawn, grid, with_settings
from treadle.sweep.document import Search, Sweep, VariedScenario
from treadle.sweep.inputs import Inputs, parts_of_files
from treadle.sweep.line import Line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Variant:
    """A scenario or a policy with its settings."""

    name: str
    """Different from all others'."""
    entry: str
    """The name of what was varied."""
    settings: Point
    text: str
    """As runs read it."""
    readable: str = ""
    """A policy as a treadle.yaml that may be used elsewhere."""
    code: str = ""
    seeds: tuple[int, ...] = ()
    """Of a scenario."""


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
    """Of each policy, for compiling it."""
    notes: tuple[str, ...] = ()
    """What recordings have and the model of their clusters has not."""


def plan_of(sweep: Sweep, file: Path, inputs: Inputs, *, trust_code: bool = False) -> Plan:
    """Return the runs of a sweep; paths in it begin at its file's folder.

    Args:
        sweep: the sweep
        file: what it was read from
        inputs: takes the files that runs read
        trust_code: whether Python files may be run that its scenarios and policies name

    Raises:
        UserError: a file is wrong, or becomes wrong with a setting; the text names both.
    """
    register_parts()
    notes: list[str] = []
    parse = partial(parse_settings, trust_code=trust_code)
    policies = _policies(sweep, file.parent, inputs, trust_code)  # first: without trust it copies nothing
    scenarios = _scenarios(sweep, file.parent, inputs, notes, trust_code)
    file_of_runs = str(inputs.folder / "treadle.yaml")
    settings = [_relabelled(each.name, parse, file_of_runs, each.text) for each in policies]
    for scenario in scenarios:
        model = parse_scenario(scenario.name, scenario.text, trust_code=trust_code)
        for policy, own in zip(policies, settings, strict=True):
            try:
                whole = _with_engines(model, own, scenario, inputs, trust_code=trust_code)
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
    found, parse = [], partial(parse_scenario, trust_code=trust_code)
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
            found.append(Variant(label, name, point, _dumped(copied), code=code, seeds=chosen))
    return _distinct(found, "scenarios")


def _refuse_code(label: str, document: dict[str, Any]) -> None:
    """Refuse parts of engines that a scenario names, before they are copied."""
    problems = [
        Problem(0, f"{place}.path", untrusted(str(part.get("path")))) for place, part in parts_of_files(document)
    ]
    if problems:
        raise ConfigError(label, problems)


def _document(
    entry: VariedScenario, folder: Path, inputs: Inputs, notes: list[str], trust_code: bool
) -> tuple[str, dict[str, Any], Path]:
    """Return the name and the document of an entry, and where paths in it begin; note what a recording loses."""
    if entry.recording:
        place = folder / entry.recording
        document, lost = recordings.scenario_of(place, inputs)
        name = entry.name or place.absolute().stem
        notes += [f"{name}: {note}" for note in lost]
        return name, document, inputs.folder
    read = Scenario.read(folder / (entry.scenario or ""), trust_code=trust_code)
    return entry.name or read.folder.joinpath(read.file).stem, yaml.safe_load(read.text or ""), read.folder


def _policies(sweep: Sweep, folder: Path, inputs: Inputs, trust_code: bool) -> list[Variant]:
    found, parse = [], partial(parse_settings, trust_code=trust_code)
    for at, entry in enumerate(sweep.policies):
        file = find_policy(entry.policy, folder, f"policies[{at}]")
        text = text_of(file)
        YamlDocument(str(file), text)  # bounds what the text may grow to
        document = yaml.safe_load(with_absolute_paths(text, file.parent)) or {}
        name = entry.name or file.stem
        for point in _points(entry.axes, sweep.search, sweep.search.policies, (2, at)):
            label = _label(name, point)
            changed = _changed(document, point, label)
            _relabelled(label if point else str(file), parse, str(file), _dumped(changed))
            copied = inputs.policy(changed, file.parent)
            found.append(Variant(label, name, point, _dumped(copied), _dumped(changed)))
    return _distinct(found, "policies")


def _points(axes: dict[str, Axis], search: Search, count: int, stream: tuple[int, int]) -> Iterator[Point]:
    if axes and search.kind == "random" and count:
        return drawn(axes, count, (search.seed, *stream))
    return grid(axes)


def _label(name: str, point: Point) -> str:
    """Return a name with the settings by the last steps of their paths: as many as distinguish them."""
    shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in point.values())
    return " ".join([name, *(f"{short}={value}" for short, value in zip(_short(list(point)), shown, strict=True))])


def _short(paths: list[str]) -> list[str]:
    split = [path.removesuffix(".kind").split(".") for path in paths]  # order=srpt says as much as order.kind=srpt
    for count in range(1, max(map(len, split), default=0)):
        names = [".".join(steps[-count:]) for steps in split]
        if len(set(names)) == len(names):
            return names
    return paths


def _distinct(found: list[Variant], kind: str) -> list[Variant]:
    """Return variants of which each has a name of its own.

    Raises:
        UserError: two files have the same name.
    """
    entries: dict[str, int] = {}
    for each in found:
        number = entries[each.name] = entries.get(each.name, 0) + 1
        if number > 1 and not each.settings:
            raise UserError(f"{kind}: two are called {each.name!r}; give one a name: {{name: ...}}")
    seen: dict[str, int] = {}
    distinct = []
    for each in found:
        seen[each.name] = number = seen.get(each.name, 0) + 1
        distinct.append(each if entries[each.name] == 1 else replace(each, name=f"{each.name} #{number}"))
    return distinct


def _changed(document: Any, point: Point, label: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UserError(f"{label}: is no mapping; write `key: value` lines")
    try:
        return with_settings(document, point)
    except UserError as error:
        raise UserError(f"{label}: {error}") from error


def _with_engines(model: Model, own: Settings, scenario: Variant, inputs: Inputs, *, trust_code: bool) -> Settings:
    def parse(file: str, text: str) -> Settings:
        return with_engines(model, own, file, text, trust_code=trust_code)

    return _relabelled(scenario.name, parse, str(inputs.folder / "scenario.yaml"), scenario.text)


def _relabelled(label: str, parse: Callable[[str, str], T], file: str, text: str) -> T:
    """Parse a text that is not as it is in any file: mistakes have the label for a file, and no line."""
    try:
        return parse(file, text)
    except ConfigError as error:
        raise ConfigError(label, [problem._replace(line=0) for problem in error.problems]) from error


class _Plain(yaml.SafeDumper):
    """Writes what is there twice twice: aliases are refused."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dumped(document: Any) -> str:
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True)

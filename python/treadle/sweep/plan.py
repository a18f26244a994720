"""The runs that a sweep has: every variant of every scenario under every variant of every policy, with every seed.

The files that runs read, copied to folders named by the digest of what is in them.

A run reads the copy: a file that somebody changes in the middle of a sweep changes no run, and a folder may be sent
to another machine as it is.

Recordings as scenarios of a sweep: the cluster and the jobs of one, as `treadle replay --policy` reduces it.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from treadle.admin.install import find_policy, with_absolute_paths
from treadle.config.errors import ConfigError, Problem
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.config.trust import untrusted
from treadle.config.yaml_nodes import YamlDocument, text_of
from treadle.errors import UserError
from treadle.files import read_regular
from treadle.policy.catalogue import register_parts
from treadle.record.files import segments
from treadle.replay.model import reduce
from treadle.replay.seen import look
from treadle.simulate.batch import check_trees
from treadle.simulate.run import Scenario
from treadle.simulator.engines_simulation import with_engines
from treadle.simulator.scenario import Scenario as Model
from treadle.simulator.scenario import parse_scenario
from treadle.sweep.document import Axis, Point, Search, Sweep, VariedScenario, drawn, grid, with_settings
from treadle.sweep.line import Line
from treadle.sweep.runs import has_content, write_at_once
from treadle.wire.schema import WireError
from treadle.workload.formats import FORMATS, GENERATORS, READERS, offered, place_of, recognised
from treadle.workload.traces.own import write_own

BESIDE: Final = ("google", "tpch", "omega")
"""Formats whose readers read other files of the same folder."""

BYTES_MAX: Final = 4 << 30
"""Files that a scenario reads together are no longer than this: they are copied by way of memory."""


class Inputs:
    """Takes files in."""

    def __init__(self, folder: Path) -> None:
        """Put copies below a folder."""
        self.folder = folder
        self.taken: dict[str, None] = {}
        """The folders that lines name, in order."""

    def scenario(self, document: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], str]:
        """Return a scenario that reads copies, and a digest of the entry points that it names.

        Args:
            document: the scenario, which must be right
            folder: where its paths begin

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
        """Return a document whose policies' parts are read from copies; arguments and errors as of `scenario`."""
        changed = copy.deepcopy(dict(document))
        for _, part in parts_of_files(changed):
            part["path"] = self.file(folder / part["path"])
        return changed

    def file(self, file: Path) -> str:
        """Take a file in; return the path of its copy below the folder."""
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
                raise UserError(f"{file}: longer than {BYTES_MAX} bytes with files beside it, or it grows; shorten it")
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
    """Yield the parts from a user's files of a treadle.yaml or a scenario, each with its path; those of engines too."""
    engines = {f"engines.{name}.": engine for name, engine in (document.get("engines") or {}).items()}
    for begin, place in ({"": document} | engines).items():
        for slot, part in ((place or {}).get("policy") or {}).items():
            if isinstance(part, dict) and part.get("kind") == "file":
                yield f"{begin}policy.{slot}", part


def _entry_point(group: str, name: str) -> str:
    """Return what distinguishes versions of an entry point: that of its distribution, and its module's text."""
    found: EntryPoint | None = offered(group).get(name)
    if found is None:
        return ""  # reading the jobs reports what is wrong
    dist = f"{found.dist.name} {found.dist.version}" if found.dist else ""
    try:
        source = inspect.getsource(inspect.getmodule(found.load()) or Inputs)
    except (OSError, TypeError, Exception):
        source = ""
    return hashlib.sha256(f"{found.value} {dist} {source}".encode()).hexdigest()


def scenario_of(place: Path, inputs: Inputs) -> tuple[dict[str, Any], list[str]]:
    """Return a scenario that reads the jobs of a recording from a copy, and what the recording has and it has not.

    Args:
        place: a segment, or a folder of segments
        inputs: takes the jobs in

    Raises:
        UserError: it is no recording, or nothing in it ran.
    """
    try:
        reduced = reduce(look(segments(place)))
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
        document, lost = scenario_of(place, inputs)
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

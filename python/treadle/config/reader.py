"""Reads treadle.yaml into settings, or raises an error with file, line, field and allowed values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from treadle.config.part_files import BYTES_MAX as PART_BYTES_MAX
from treadle.config.part_files import FilePart, PartFileError
from treadle.config.parts import DEFAULTS, PART_KINDS, PARTS, Parameters, Part
from treadle.config.settings import (
    IGNORE_PRIORITY,
    KEYS,
    OWN_KEYS,
    SECTIONS,
    SEED_MAX,
    Entry,
    Policy,
    RosterEngine,
    Settings,
    Source,
    default_settings,
    engines_of,
    problems,
    unused,
)
from treadle.config.trust import reason_against, untrusted
from treadle.config.yaml_nodes import NO_NAME, Path, YamlDocument, model_at, part_paths, text_of
from treadle.errors import ConfigError, Problem, lines_of, unknown
from treadle.files import read_regular

P = TypeVar("P", bound=Parameters)


class Code(Enum):
    """How a reader treats the Python files that settings name."""

    RUN = "runs them, if no other user may write to them"
    INSPECT = "looks whether they are there"
    REFUSE = "refuses them"


def read_settings(file: FilePath, *, trust_code: bool = True) -> Settings:
    """Read a treadle.yaml; missing settings have their defaults.

    Args:
        file: the file
        trust_code: whether parts' files are executed; without `--trust-code` only if the user named this file

    Raises:
        ConfigError: the file cannot be read, or it has errors; all of them are reported together.
    """
    return parse_settings(str(file), text_of(file), trust_code=trust_code)


def check_settings(file: FilePath, text: str | None = None) -> Settings:
    """Read a treadle.yaml without executing parts' files, which are only checked for existence.

    Args:
        file: the file
        text: its new content; None: the file is read

    Raises:
        ConfigError: the file cannot be read, or it has errors; all of them are reported together.
    """
    text = text_of(file) if text is None else text
    return _Reader(YamlDocument(str(file), text), Code.INSPECT).settings(text)


def read_section(file: FilePath, name: str, model: type[P]) -> P:
    """Read a section of a treadle.yaml; other sections are ignored, and no code is executed.

    Raises:
        ConfigError: the file cannot be read, or something in the section is wrong.
    """
    return _Reader(YamlDocument(str(file), text_of(file))).section(name, model)


def read_roster(file: FilePath, text: str | None = None) -> tuple[RosterEngine, ...]:
    """Read the engines of a treadle.yaml; their settings are ignored, and no code is executed.

    Args:
        file: the file
        text: its content; None: the file is read

    Raises:
        ConfigError: the file cannot be read, or something in its roster is wrong.
    """
    return _Reader(YamlDocument(str(file), text_of(file) if text is None else text)).roster()


def parse_engines(
    file: str, text: str, base: Settings, besides: Collection[str] = (), *, trust_code: bool = False
) -> Settings:
    """Return settings with the engines of another text, such as a scenario, whose other sections are ignored.

    Args:
        file: name of the text in errors
        text: the text
        base: the engines' default settings
        besides: keys of entries that have another reader
        trust_code: whether parts' files are executed

    Raises:
        ConfigError: something in the section is wrong.
    """
    return _Reader(YamlDocument(file, text), _code(trust_code)).engines(base, besides)


def parse_settings(
    file: str, text: str, *, kept: Mapping[str, bytes] | None = None, trust_code: bool = False
) -> Settings:
    """Return the settings in a text (see `read_settings`).

    Args:
        file: its name in errors; its folder is the base of parts' relative paths
        text: the text
        kept: contents of the parts' files by absolute path, instead of reading them (`Source`)
        trust_code: whether parts' files are executed
    """
    return _Reader(YamlDocument(file, text), _code(trust_code), kept).settings(text)


def _code(trust_code: bool) -> Code:
    return Code.RUN if trust_code else Code.REFUSE


def peek_source(file: FilePath) -> Source | None:
    """Return the contents of a treadle.yaml and its parts' files, without executing code; None if unknown.

    An unreadable part's file counts as empty.
    """
    try:
        text = text_of(file)
        YamlDocument(str(file), text)
    except ConfigError:
        return None
    paths = [file.parent.absolute() / node.value for node in part_paths(text)]
    return Source(str(file), text, {str(path): _content(path) for path in paths})


def _content(path: FilePath) -> bytes:
    try:
        return read_regular(path, PART_BYTES_MAX)
    except (OSError, ValueError):  # reading the settings reports it
        return b""


class _Reader:
    """Checks one document, collecting all its problems."""

    def __init__(
        self, document: YamlDocument, code: Code = Code.REFUSE, kept: Mapping[str, bytes] | None = None
    ) -> None:
        self._document = document
        self._kept = kept
        self._code = code
        self._part_files: dict[str, bytes] = {}
        self._problems: list[Problem] = []
        self._root = self._mapping(document.value, ())

    def settings(self, text: str) -> Settings:
        self._known(self._root, (), KEYS)
        given = self._given(self._root, ())
        entries, own = self._entries()
        self._refuse()
        source = Source(self._document.file, text, self._part_files)
        idle = sorted(self._document.problem(path, text) for path, text in unused(self._root.get("engines")))
        warnings = tuple(lines_of(self._document.file, idle))
        base = replace(default_settings(), source=source, warnings=warnings, **given)
        return _with_engines(base, entries, own)

    def engines(self, base: Settings, besides: Collection[str]) -> Settings:
        """Return settings with the engines of the document only; entries' keys in ``besides`` are skipped."""
        found = self._entries(besides)
        self._refuse()
        return _with_engines(base, *found)

    def roster(self) -> tuple[RosterEngine, ...]:
        entries, _ = self._entries(OWN_KEYS)
        self._refuse()
        return engines_of(entries)

    def section(self, name: str, model: type[P]) -> P:
        found = self._parameters(model, self._root.get(name), (name,))
        self._refuse()
        return found or model()

    def _refuse(self) -> None:
        """Raise if there were problems."""
        if self._problems:
            raise ConfigError(self._document.file, self._problems)

    def _given(self, root: dict[str, Any], at: Path) -> dict[str, Any]:
        """Return the fields of `Settings` for the keys of a mapping."""
        given: dict[str, Any] = {}
        if "policy" in root:
            chosen = self._mapping(root["policy"], (*at, "policy"))
            self._known(chosen, (*at, "policy"), (*PART_KINDS, IGNORE_PRIORITY))
            ignore_priority = self._flag(chosen.get(IGNORE_PRIORITY, False), (*at, "policy", IGNORE_PRIORITY))
            parts = {part: self._part(part, chosen.get(part), (*at, "policy", part)) for part in PART_KINDS}
            policy = {part: choice for part, choice in parts.items() if choice is not None}
            if ignore_priority and parts["order"] is not None and parts["order"].kind.traits.compares_priorities:
                text = f"has no effect: the order {parts['order'].kind.name} compares priorities itself, as YARN's fifo"
                self._wrong((*at, "policy", IGNORE_PRIORITY), f"{text}; take it out, or choose another order")
            if len(policy) == len(PART_KINDS):
                given["policy"] = Policy(**policy, ignore_priority=ignore_priority)
        for name, model in SECTIONS.items():
            if name in root:
                given[name] = self._parameters(model, root[name], (*at, name)) or model()
        if "seed" in root:
            given["seed"] = self._seed(root["seed"], (*at, "seed"))
        return given

    def _entries(self, besides: Collection[str] = ()) -> tuple[dict[str, Entry], dict[str, dict[str, Any]]]:
        """Return the roster's entries, and the fields of `Settings` that each sets; without keys in ``besides``."""
        entries, own = {}, {}
        before = len(self._problems)
        for name, fields in self._mapping(self._root.get("engines"), ("engines",)).items():
            at = ("engines", name)
            given = {key: item for key, item in self._mapping(fields, at).items() if key not in besides}
            sections = {key: given.pop(key) for key in OWN_KEYS if key in given}
            entry = self._parameters(Entry, given, at, (*OWN_KEYS, *besides))
            own[name] = self._given(sections, at)
            if entry is not None:
                entries[name] = entry
        if len(self._problems) == before:
            for path, text in problems(entries):
                self._wrong(("engines", *path), text)
        return entries, own

    def _wrong(self, path: Path, text: str) -> None:
        self._problems.append(self._document.problem(path, text))

    def _mapping(self, value: Any, path: Path) -> dict[str, Any]:
        """Return the mapping at a path; empty if it is missing."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._wrong(path, f"{value!r} is not a mapping; write `key: value` lines")
            return {}
        if not all(isinstance(key, str) for key in value):
            for key in self._document.no_names(path):
                self._wrong((*path, key), NO_NAME)
        return {key: item for key, item in value.items() if isinstance(key, str)}

    def _flag(self, value: Any, path: Path) -> bool:
        if not isinstance(value, bool):
            self._wrong(path, f"{value!r} is neither true nor false")
        return value is True

    def _known(self, mapping: dict[str, Any], path: Path, known: Iterable[str]) -> None:
        known = list(known)
        for key in mapping:
            if key not in known:
                self._wrong((*path, key), unknown(key, known))

    def _part(self, part: str, value: Any, path: Path) -> Part | None:
        mapping = self._mapping(value, path)
        kinds = PARTS.kinds(part)
        name = mapping.pop("kind", DEFAULTS[part])
        if not isinstance(name, str) or name not in kinds:
            self._wrong((*path, "kind"), unknown(str(name), kinds))
            return None
        parameters = self._parameters(kinds[name].parameters, mapping, path, ("kind",))
        if isinstance(parameters, FilePart):
            parameters = self._located(part, parameters, path)
        return None if parameters is None else Part(kinds[name], parameters)

    def _located(self, part: str, parameters: FilePart, path: Path) -> FilePart | None:
        """Find the class of a custom part: execute its file, unless no code may be executed."""
        file = FilePath(self._document.file)
        path_of_part = file.parent.absolute() / parameters.path
        try:
            if self._code is Code.INSPECT and path_of_part.is_file():
                return parameters
            if self._code is Code.INSPECT:
                raise PartFileError("path", f"{path_of_part} is not there, or no file; check the path")
            if self._code is Code.REFUSE:
                raise PartFileError("path", untrusted(parameters.path))
            if self._kept is None and file.exists() and (reason := reason_against(file)):
                raise PartFileError("path", reason)  # others may write to the treadle.yaml that names the code
            located = parameters.located(part, file.parent, self._kept)
        except PartFileError as error:
            self._wrong((*path, error.field), error.text)
            return None
        self._part_files[located.path] = located.source
        return located

    def _parameters(self, model: type[P], value: Any, path: Path, besides: tuple[str, ...] = ()) -> P | None:
        try:
            return model.model_validate(self._mapping(value, path))
        except ValidationError as error:
            for detail in error.errors():
                self._wrong((*path, *detail["loc"]), _explain(detail, model, besides))
            return None

    def _seed(self, value: Any, path: Path) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SEED_MAX:
            return value
        self._wrong(path, f"{value!r} is not a whole number from 0 to {SEED_MAX}")
        return 0


def _with_engines(base: Settings, entries: dict[str, Entry], own: dict[str, dict[str, Any]]) -> Settings:
    if not entries:
        return base
    followed = {name: replace(base, **own[name]) for name in entries}
    return replace(base, engines=engines_of(entries), entries=followed)


def _explain(detail: ErrorDetails, model: type[Parameters], besides: tuple[str, ...]) -> str:
    """Return the error of a value and the allowed values, in one line."""
    found = model_at(model, detail["loc"][:-1])
    holder = found if found is not None and issubclass(found, Parameters) else model
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    field = holder.keys().get(name)
    if detail["type"] == "extra_forbidden":
        return unknown(name, [*holder.keys(), *(besides if holder is model else ())])
    if detail["type"] == "missing" and field is not None:
        return f"is missing; write `{name}: ...`: {field.description}"
    message = detail["msg"].replace("Input should be", "it must be").replace("a valid tuple", "a list")
    text = f"{detail['input']!r}: {message.removeprefix('Value error, ')}"
    return text if field is None or field.is_required() else f"{text} (default {field.default!r})"

"""What in the state of an engine is not kept, but named: what the reader has of its own, and what is a user's code."""

from __future__ import annotations

import json
import types
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treadle.config.part_files import METHODS, FilePart, PartFileError
from treadle.config.parts import PARTS, QUESTIONS, Kind, Traits
from treadle.policy.user_parts import unwatched
from treadle.record.state import StateError


class CodeNotTrustedError(StateError):
    """The policy has parts from files, whose code nobody has allowed to run."""


def name_of(value: Any, attribute: str) -> Any:
    """Return the name of what is not kept, as JSON takes it; None for what is.

    Args:
        value: an object
        attribute: which attribute has it
    """
    if attribute == "_watch":
        return ["watch"]
    if isinstance(value, Kind):
        return ["kind", *_kind(value)]
    if isinstance(value, Traits):
        return ["traits", *_kind(value)]
    if isinstance(value, FilePart):
        return ["file", *_file(value)]
    if isinstance(value, types.MethodType) and type(value.__self__).__module__.startswith("treadle_part_"):
        return ["part", type(value.__self__).__qualname__, value.__name__, _plain(vars(value.__self__))]
    return None


def _kind(value: Kind | Traits) -> tuple[str, str]:
    for part in QUESTIONS:
        for name, kind in PARTS.kinds(part).items():
            if kind is value or kind.traits is value:
                return part, name
    raise StateError(f"{value!r} is no registered part")


def _file(value: FilePart) -> tuple[str, str, str]:
    source = b64encode(value.source).decode()
    return f"{type(value).__module__}:{type(value).__qualname__}", value.model_dump_json(by_alias=True), source


def _plain(kept: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a part from a file keeps; None if that is more than JSON takes."""
    try:
        return dict(json.loads(json.dumps(dict(kept))))
    except (TypeError, ValueError):
        return None


class Named:
    """Gives names the meaning that they have for this reader."""

    def __init__(self, *, trust_code: bool, watch: Any = unwatched) -> None:
        self._trust_code = trust_code
        self._watch = watch
        self._files: dict[str, FilePart] = {}
        self.notes: list[str] = []
        """What could not be recorded as it was."""

    def __call__(self, name: Any) -> Any:
        """Return the object of a name.

        Raises:
            StateError: there is none.
        """
        what, inside = name[0], name[1:]
        if what == "kind":
            return PARTS.kinds(inside[0])[inside[1]]
        if what == "traits":
            return PARTS.kinds(inside[0])[inside[1]].traits
        if what == "watch":
            return self._watch
        if what == "file":
            return self._file(*inside)
        if what == "part":
            return self._method(*inside)
        raise StateError(f"{what!r} names nothing")

    def _file(self, kind: str, dumped: str, source: str) -> FilePart:
        from treadle.config import part_files

        if not self._trust_code:
            raise CodeNotTrustedError("a part of the policy is Python code from a file")
        key = json.dumps([kind, dumped, source])
        if key not in self._files:
            found: Any = getattr(part_files, kind.rpartition(":")[2])
            unplaced: FilePart = found.model_validate_json(dumped)
            path = str(Path(unplaced.path).absolute())
            self._files[key] = _located(unplaced, path, b64decode(source))
        return self._files[key]

    def _method(self, kind: str, method: str, kept: dict[str, Any] | None) -> Any:
        part = next((each for each in self._files.values() if each.class_name == kind), None)
        if part is None:
            raise StateError(f"no file has the class {kind}")
        made = part.make()
        if kept is None:
            self.notes.append(f"what {part.label} keeps from decision to decision was not recorded")
        else:
            vars(made).update(kept)
        return getattr(made, method)


def _located(part: FilePart, path: str, source: bytes) -> FilePart:
    for role in METHODS:
        try:
            return part.located(role, Path("/"), {path: source})
        except PartFileError as error:
            wrong = error
    raise StateError(f"{path}: {wrong}")

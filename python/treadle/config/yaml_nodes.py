"""YAML with line numbers of all nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from treadle.errors import ConfigError, Problem, unknown
from treadle.files import read_regular

Path = tuple[str | int, ...]

BYTES_MAX: Final = 1 << 20
"""Maximum size of a treadle.yaml."""

NODES_MAX: Final = 200_000
"""Maximum number of keys and values of a document; each takes about a KiB of memory."""

_NUMBER_MAX: Final = 100
_NUMBERS: Final = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
"""Types of numbers with limited length, also as keys: YAML reads 1:1:1 in base 60, in quadratic time."""

_SPECIAL_KEYS: Final = {"tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"}
"""Types of the keys ``<<`` and ``=``: their value stands for the mapping's own, so no key would be where it seems."""

_KEY_MAX: Final = 1_000
"""Maximum length of a key. A list or mapping as a key is rejected: as a text it could exceed any memory."""


def dotted(path: Path) -> str:
    """Return a path in the form of messages: ``policy.fit.window``."""
    return ".".join(map(str, path))


def text_of(file: FilePath) -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read, is not a regular file, is longer than `BYTES_MAX`, or is not UTF-8.
    """
    content = b""
    try:
        content = read_regular(file, BYTES_MAX)
        if len(content) > BYTES_MAX:
            raise ConfigError(str(file), [_too_long()])
        return content.decode("utf-8")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; check the path and its permissions"
        raise ConfigError(str(file), [Problem(0, "", problem)]) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(str(file), [Problem(line, "", "not UTF-8; save the file in that encoding")]) from error


def _too_long() -> Problem:
    return Problem(0, "", f"longer than {BYTES_MAX} bytes; shorten the file")


NO_NAME: Final = "is not a key, since YAML does not read it as a text; write a name, or quotes"

M = TypeVar("M", bound=BaseModel)


def parse_model(
    document: YamlDocument, kind: type[M], page: str, sections: str, remedies: Mapping[str, str] | None = None
) -> M:
    """Return a document as a model.

    Args:
        document: the document
        kind: the model; unknown keys are errors
        page: documents the file
        sections: what there is in a document, for errors
        remedies: what to write, by pydantic's kind of error; by section where it is not a mapping

    Raises:
        ConfigError: something in it is wrong.
    """
    if not isinstance(document.value, dict):
        raise ConfigError(document.file, [document.problem((), f"is not a mapping; write {sections} ({page})")])
    try:
        return kind.model_validate(document.value)
    except ValidationError as error:
        details, other = details_of(error), remedies or {}
        holders = dict.fromkeys(place for each in details if (place := _holder_of_key(each)) is not None)
        problems = [document.problem((*place, key), NO_NAME) for place in holders for key in document.no_names(place)]
        problems += [
            document.problem(each["loc"], _explain(each, kind, page, other))
            for each in details
            if _holder_of_key(each) is None
        ]
        raise ConfigError(document.file, problems) from error


def _explain(detail: ErrorDetails, kind: type[BaseModel], page: str, remedies: Mapping[str, str]) -> str:
    """Return the error of a value and the allowed values, in one line."""
    place = detail["loc"]
    if detail["type"] == "extra_forbidden":
        model = model_at(kind, place[:-1])
        known = [field.alias or name for name, field in model.model_fields.items()] if model is not None else []
        return unknown(str(place[-1]), known) if known else "is not known here; take it out"
    remedy = remedies.get(str(place[0]) if detail["type"] == "model_type" else detail["type"])
    return f"{detail['input']!r}; {remedy}" if remedy else explained(detail, page)


def model_at(kind: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """Return the model at a location within a model's values; None if it cannot be determined."""
    model = kind
    named = False
    for step in path:
        if isinstance(step, int) or named:
            named = False
            continue
        annotation = model.model_fields[step].annotation if step in model.model_fields else None
        inside = [annotation, *getattr(annotation, "__args__", ())]
        models = [each for each in inside if isinstance(each, type) and issubclass(each, BaseModel)]
        if not models:
            return None
        model, named = models[0], get_origin(annotation) is dict
    return model


def _holder_of_key(detail: ErrorDetails) -> tuple[Any, ...] | None:
    """Return the path of a mapping with a key that is not a text, from a pydantic error; None for other errors."""
    place, kind = tuple(detail["loc"]), detail["type"]
    if kind == "invalid_key":
        return place[:-1]
    return place[:-2] if kind == "string_type" and place[-1:] == ("[key]",) else None


def details_of(error: ValidationError) -> list[ErrorDetails]:
    """Return the errors, except for lists that count as empty because their items are wrong."""
    details = error.errors()

    def holds_wrong(place: tuple[str | int, ...]) -> bool:
        return any(len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in details)

    return [each for each in details if not (each["type"] == "too_short" and holds_wrong(each["loc"]))]


def explained(detail: ErrorDetails, page: str) -> str:
    """Return the error of a value and the allowed values, in one line; ``page`` documents the file."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return f"is missing; write it ({page})"
    if kind == "too_short":
        return f"has {context['actual_length']}; at least {context['min_length']} must be written"
    if kind == "value_error":
        return str(context["error"])
    return f"{detail['input']!r}: {detail['msg'].replace('Input should be', 'it must be')}"


_MISFIT: Final = (ValueError, LookupError, ArithmeticError, AttributeError, TypeError)
"""Exceptions of PyYAML for a value that does not match its tag, such as `!!bool x`."""


class _TooLargeError(yaml.MarkedYAMLError):
    """A document has too many keys and values."""


class _BoundedLoader(yaml.SafeLoader):
    """Builds the nodes of a document, a bounded number of them."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._left = NODES_MAX

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node."""
        self._left -= 1
        if self._left < 0:
            mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _TooLargeError(problem=f"more than {NODES_MAX} keys and values; shorten it", problem_mark=mark)
        return super().compose_node(parent, index)


class YamlDocument:
    """A document's value, and the line of each key in it."""

    def __init__(self, file: str, text: str) -> None:
        """Parse ``text``; ``file`` is what errors call it.

        Raises:
            ConfigError: it is not YAML, has a key twice, uses aliases, or is too large.
        """
        self.file = file
        self._lines: dict[Path, int] = {}
        self._no_names: dict[Path, list[str]] = {}
        if len(text) > BYTES_MAX:
            raise ConfigError(file, [_too_long()])
        try:
            node = yaml.compose(text, Loader=_BoundedLoader)
            if node is not None:
                self._note(node, ())
            self.value: Any = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark, kind = error.problem_mark, "" if isinstance(error, _TooLargeError) else "not YAML: "
            raise ConfigError(file, [Problem(mark.line + 1 if mark else 0, "", f"{kind}{error.problem}")]) from error
        except (yaml.YAMLError, RecursionError, *_MISFIT) as error:
            raise ConfigError(file, [Problem(0, "", f"not YAML: {error}".partition("\n")[0])]) from error

    def line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest thing around it that is in the file; 0 in an empty file."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 0)

    def no_names(self, path: Path) -> list[str]:
        """Return the keys of a mapping, as they are written, that YAML reads as something else than a text."""
        return self._no_names.get(path, [])

    def problem(self, path: Path, text: str) -> Problem:
        """Return a problem with what stands at a path."""
        return Problem(self.line(path), dotted(path), text)

    def _note(self, node: yaml.Node, path: Path) -> None:
        if path in self._lines:
            raise ConfigError(self.file, [Problem(node.start_mark.line + 1, dotted(path), "is there twice; keep one")])
        self._lines[path] = node.start_mark.line + 1
        if node.tag in _NUMBERS and len(node.value) > _NUMBER_MAX:
            text = "is too long for a number; write a text in quotes"
            raise ConfigError(self.file, [Problem(node.start_mark.line + 1, dotted(path), text)])
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._refuse_alias(item, node, (*path, index))
                self._note(item, (*path, index))
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._refuse_key(key, path)
                below = (*path, str(key.value))
                self._refuse_alias(value, key, below)
                self._note(value, below)
                self._lines[below] = key.start_mark.line + 1
                if key.tag != "tag:yaml.org,2002:str":
                    self._no_names.setdefault(path, []).append(str(key.value))

    def _refuse_key(self, key: yaml.Node, path: Path) -> None:
        if key.tag in _SPECIAL_KEYS:
            text = f"has the key {key.value!r}, which YAML replaces; write out what it stands for"
            raise ConfigError(self.file, [Problem(key.start_mark.line + 1, dotted(path), text)])
        longest = _NUMBER_MAX if key.tag in _NUMBERS else _KEY_MAX
        if not isinstance(key, yaml.ScalarNode) or len(key.value) > longest:
            text = f"has a key that is not a text of at most {longest} characters; write a name"
            raise ConfigError(self.file, [Problem(key.start_mark.line + 1, dotted(path), text)])

    def _refuse_alias(self, node: yaml.Node, before: yaml.Node, path: Path) -> None:
        # An alias is the very node that it names, which stands earlier in the file.
        if node.start_mark.index < before.start_mark.index:
            raise ConfigError(
                self.file, [Problem(before.start_mark.line + 1, dotted(path), "is an alias; write it out")]
            )


def part_paths(text: str) -> Iterator[yaml.ScalarNode]:
    """Yield the node of each path of a custom part's file in a treadle.yaml, whose text makes a `YamlDocument`."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for place in (root, *_children(_child(root, "engines"))):
        for part in _children(_child(place, "policy")):
            kind, path = _child(part, "kind"), _child(part, "path")
            if isinstance(kind, yaml.ScalarNode) and kind.value == "file" and isinstance(path, yaml.ScalarNode):
                yield path


def _children(node: yaml.Node | None) -> list[yaml.Node]:
    return [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else []


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)

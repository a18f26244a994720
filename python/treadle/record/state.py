"""The whole state of an engine as plain values and bytes, and back.

A graph of objects becomes a tree of JSON values, in which every object and array stands once and is referred to by its
number, and a list of arrays. Only classes of those parts of the package that keep state may stand in it (`PLACES`), and
no function is called to make one: what is read runs no code. Whatever belongs to the process that reads, such as its
settings, is a name that the reader gives a meaning to.
"""

from __future__ import annotations

import types
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from treadle.config.parts import Parameters

Array = npt.NDArray[Any]
T = TypeVar("T")

PLACES: Final = (
    "treadle.compiled.",
    "treadle.config.",
    "treadle.constraints.",
    "treadle.engine.",
    "treadle.events.",
    "treadle.live.waits",
    "treadle.model.",
    "treadle.policy.",
    "treadle.proposals",
    "treadle.wire.answer",
)
"""Modules whose objects are state; a name that ends in a dot includes all below it."""

_PLAIN: Final = (type(None), bool, int, float, str)
_OTHERS: Final = (set, deque, types.MappingProxyType, np.random.Generator)
_DTYPE_KINDS: Final = "biufV"
"""Of arrays that can be kept: numbers, and records of numbers."""


class StateError(ValueError):
    """State that cannot be kept, or something that is none; it names where in the graph."""


@dataclass(slots=True)
class State:
    """A graph of objects, kept: as long as nobody changes its arrays it can be written at any later time."""

    tree: Any
    arrays: list[Array] = field(default_factory=list)


Name = Callable[[Any, str], Any]
"""Returns a JSON value for an object that the reader will have one of its own for, None for others; is given the
object, and the name of the attribute that has it."""


def keep(root: Any, name: Name) -> State:
    """Return a graph's state; its arrays are copied.

    Args:
        root: where it begins
        name: names what is not kept

    Raises:
        StateError: something in it cannot be kept.
    """
    keeper = _Keeper(name)
    return State(keeper.value(root, "state"), keeper.arrays)


def restore(state: State, named: Callable[[Any], Any]) -> Any:
    """Return a graph of new objects.

    Args:
        state: as `keep` returned it; its arrays are taken over
        named: returns the object of a name of the keeper's

    Raises:
        StateError: the state is none of this version's.
    """
    try:
        return _Restorer(state.arrays, named).value(state.tree)
    except (AttributeError, ImportError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StateError(f"no state of this version: {type(error).__name__}: {error}") from error


def _is_kept(module: str) -> bool:
    return any(module.startswith(place) if place.endswith(".") else module == place for place in PLACES)


def _attributes(value: Any) -> dict[str, Any]:
    """Return what an object keeps, in an order that does not depend on who was asked first."""
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"} and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


class _Keeper:
    def __init__(self, name: Name) -> None:
        self._name = name
        self._numbers: dict[int, int] = {}
        self._held: list[Any] = []
        """So that no number is given out twice."""
        self.arrays: list[Array] = []

    def value(self, value: Any, where: str, attribute: str = "") -> Any:
        """Return a value as JSON takes it: lists and mappings with one key, which says what they are."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        number = self._numbers.get(id(value))
        if number is not None:
            return {"at": number}
        given = self._name(value, attribute)
        if given is not None:
            return {"given": given}
        if kind is tuple:
            return {"tuple": [self.value(item, where) for item in value]}
        if isinstance(value, np.generic):
            return {"scalar": [value.dtype.str, value.item()]}
        if isinstance(value, Enum):
            return {"enum": [self._class(kind, where), value.name]}
        if kind is bytes:
            return {"bytes": b64encode(value).decode()}
        if isinstance(value, frozenset):
            return {"frozenset": [self.value(item, where) for item in sorted(value, key=repr)]}
        if isinstance(value, types.MethodType):
            return {"method": [self.value(value.__self__, where), value.__name__]}
        self._numbers[id(value)] = len(self._held)
        self._held.append(value)
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> Any:
        """Return what is referred to by its number if it is met again."""
        kind = type(value)
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if kind is list:
            if all(type(item) in _PLAIN for item in value):
                return {"row": list(value)}
            return {"list": [self.value(item, f"{where}[{at}]") for at, item in enumerate(value)]}
        if kind is dict:
            if all(type(key) in _PLAIN and type(each) in _PLAIN for key, each in value.items()):
                return {"map": [list(value), list(value.values())]}
            return {"dict": [[self.value(key, where), self.value(value[key], f"{where}[{key!r}]")] for key in value]}
        if kind in _OTHERS:
            return self._other(value, where)
        name = self._class(kind, where)
        if isinstance(value, Exception):
            inside = {key: self.value(each, f"{where}.{key}") for key, each in vars(value).items()}
            return {"error": [name, str(value), inside]}
        if isinstance(value, Parameters):
            return {"parameters": [name, value.model_dump_json(by_alias=True)]}
        if isinstance(value, tuple):
            return {"fields": [name, *(self.value(item, f"{where}.{at}") for at, item in enumerate(value))]}
        found = _attributes(value)
        return {"object": [name, {key: self.value(each, f"{where}.{key}", key) for key, each in found.items()}]}

    def _other(self, value: Any, where: str) -> Any:
        """Return a collection, or what draws at random."""
        if isinstance(value, set):
            return {"set": [self.value(item, where) for item in sorted(value, key=repr)]}
        if isinstance(value, deque):
            return {"deque": [value.maxlen, *(self.value(item, where) for item in value)]}
        if isinstance(value, types.MappingProxyType):
            return {"mapping": self.value(dict(value), where)}
        return {"random": value.bit_generator.state}

    def _array(self, array: Array, where: str) -> Any:
        if array.dtype.kind not in _DTYPE_KINDS or array.dtype.hasobject:
            raise StateError(f"{where}: an array of {array.dtype} cannot be kept")
        self.arrays.append(np.array(array, order="K"))
        return {"array": [len(self.arrays) - 1, int(array.flags.writeable)]}

    @staticmethod
    def _class(kind: type[Any], where: str) -> str:
        if not _is_kept(kind.__module__) or "<" in kind.__qualname__:
            raise StateError(f"{where}: a {kind.__module__}.{kind.__qualname__} cannot be kept")
        return f"{kind.__module__}:{kind.__qualname__}"


class _Restorer:
    def __init__(self, arrays: list[Array], named: Callable[[Any], Any]) -> None:
        self._arrays = arrays
        self._named = named
        self._made: list[Any] = []

    def value(self, tree: Any) -> Any:
        if not isinstance(tree, dict):
            if type(tree) not in _PLAIN:
                raise StateError(f"{tree!r} is no value")
            return tree
        ((what, inside),) = tree.items()
        return getattr(self, f"_{what}")(inside)

    def _at(self, number: int) -> Any:
        return self._made[number]

    def _given(self, name: Any) -> Any:
        return self._named(name)

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self.value(item) for item in items)

    def _scalar(self, inside: list[Any]) -> Any:
        return np.dtype(inside[0]).type(inside[1])

    def _enum(self, inside: list[Any]) -> Any:
        kind = _class_at(inside[0])
        if not issubclass(kind, Enum):
            raise StateError(f"{inside[0]} is no enumeration")
        return kind[inside[1]]

    def _frozenset(self, items: list[Any]) -> frozenset[Any]:
        return frozenset(self.value(item) for item in items)

    def _method(self, inside: list[Any]) -> Any:
        owner = self.value(inside[0])
        if not _is_kept(type(owner).__module__) or not isinstance(vars(type(owner)).get(inside[1]), types.FunctionType):
            raise StateError(f"{inside[1]} is no method of {type(owner).__qualname__}")
        return getattr(owner, inside[1])

    def _array(self, inside: list[int]) -> Array:
        array = self._arrays[inside[0]]
        array.flags.writeable = bool(inside[1])
        return self._note(array)

    def _note(self, made: T) -> T:
        self._made.append(made)
        return made

    def _bytes(self, text: str) -> bytes:
        return b64decode(text)

    def _row(self, items: list[Any]) -> list[Any]:
        found: list[Any] = self._note(items)
        return found

    def _map(self, inside: list[list[Any]]) -> dict[Any, Any]:
        found: dict[Any, Any] = self._note(dict(zip(*inside, strict=True)))
        return found

    def _list(self, items: list[Any]) -> list[Any]:
        found: list[Any] = self._note([])
        found.extend(self.value(item) for item in items)
        return found

    def _dict(self, items: list[list[Any]]) -> dict[Any, Any]:
        found: dict[Any, Any] = self._note({})
        for key, each in items:
            at = self.value(key)
            found[at] = self.value(each)
        return found

    def _set(self, items: list[Any]) -> set[Any]:
        found: set[Any] = self._note(set())
        for item in items:
            found.add(self.value(item))
        return found

    def _deque(self, inside: list[Any]) -> deque[Any]:
        found: deque[Any] = self._note(deque(maxlen=inside[0]))
        found.extend(self.value(item) for item in inside[1:])
        return found

    def _mapping(self, inside: Any) -> Mapping[Any, Any]:
        at = len(self._made)
        self._made.append(None)
        found = types.MappingProxyType(self.value(inside))
        self._made[at] = found
        return found

    def _random(self, inside: Any) -> np.random.Generator:
        generator = np.random.default_rng(0)
        generator.bit_generator.state = inside
        return self._note(generator)

    def _error(self, inside: list[Any]) -> Exception:
        kind = _class_at(inside[0])
        if not issubclass(kind, Exception):
            raise StateError(f"{inside[0]} is no error")
        found: Exception = self._note(kind.__new__(kind, inside[1]))
        found.__dict__.update({key: self.value(each) for key, each in inside[2].items()})
        return found

    def _parameters(self, inside: list[Any]) -> Any:
        kind = _class_at(inside[0])
        if not issubclass(kind, Parameters):
            raise StateError(f"{inside[0]} has no parameters")
        return self._note(kind.model_validate_json(inside[1]))

    def _fields(self, inside: list[Any]) -> Any:
        kind = _class_at(inside[0])
        if not issubclass(kind, tuple):
            raise StateError(f"{inside[0]} is no tuple")
        at = len(self._made)
        self._made.append(None)
        self._made[at] = tuple.__new__(kind, [self.value(item) for item in inside[1:]])
        return self._made[at]

    def _object(self, inside: list[Any]) -> Any:
        kind = _class_at(inside[0])
        found = self._note(object.__new__(kind))
        for key, each in inside[1].items():
            object.__setattr__(found, key, self.value(each))
        return found


def _class_at(name: str) -> type[Any]:
    """Return a class whose objects are state."""
    module, _, path = name.partition(":")
    if not _is_kept(module):
        raise StateError(f"{name} is no state")
    found: Any = import_module(module)
    for each in path.split("."):
        found = getattr(found, each)
    if not isinstance(found, type) or found.__module__ != module:
        raise StateError(f"{name} is no class")
    return found

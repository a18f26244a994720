"""Which values a setting of a sweep has, and how it is put into a document."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

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

"""Reads options that give several values, or the least and the greatest of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from treadle.errors import UserError

CANDIDATES_MAX = 1024
"""As `TetrisParameters.candidates`."""

T = TypeVar("T")


def levels_of(option: str, text: str, read: Callable[[str, str], T]) -> tuple[T, ...]:
    """Return the values of a list with commas, each once.

    Args:
        option: as the user writes it, for messages
        text: what the user gave
        read: takes the option and one value

    Raises:
        UserError: there is none, or ``read`` refuses one.
    """
    found = tuple(dict.fromkeys(read(option, part.strip()) for part in text.split(",") if part.strip()))
    if not found:
        raise UserError(f"{option}: {text!r} has no value; give some with commas between them")
    return found


def number_of(option: str, text: str, least: float, most: float) -> float:
    """Return a number within bounds.

    Raises:
        UserError: it is none, or not within them.
    """
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise UserError(f"{option}: {text!r}; give a number from {least:g} to {most:g}")
    return value


def whole_of(option: str, text: str, least: int, most: int) -> int:
    """Return a whole number within bounds.

    Raises:
        UserError: it is none, or not within them.
    """
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise UserError(f"{option}: {text!r}; give a whole number from {least} to {most}")
    return int(text)


def candidates_of(option: str, text: str) -> int:
    """Return how many rows compete, 0 for all.

    Raises:
        UserError: it is neither a number nor all.
    """
    return 0 if text == "all" else whole_of(f"{option} (or all)", text, 1, CANDIDATES_MAX)


def part_range(option: str, text: str) -> tuple[float, float]:
    """Return two parts of a whole, LEAST..GREATEST.

    Raises:
        UserError: they are not, or not above 0.
    """
    least, dots, greatest = text.partition("..")
    if not dots:
        raise UserError(f"{option}: {text!r}; give the least and the greatest part, as 0.5..0.7")
    found = number_of(option, least, 0.0, 1.0), number_of(option, greatest, 0.0, 1.0)
    if not 0.0 < found[0] <= found[1]:
        raise UserError(f"{option}: {text!r}; give two parts above 0, the lesser first")
    return found

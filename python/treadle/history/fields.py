"""Fields of documents, checked: each function raises `ValueError` with what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle.history.run import NUMBER_MAX, RUN_ID


def mapping_of(value: object, what: str) -> Mapping[str, Any]:
    """Return a mapping."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a mapping")
    return value


def list_of(fields: Mapping[str, Any], field: str, most: int) -> list[Any]:
    """Return a field that is a list of at most ``most``."""
    value = fields.get(field)
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{field} must be a list of at most {most}")
    return value


def text_of(fields: Mapping[str, Any], field: str) -> str:
    """Return a field that is a text."""
    return is_text(fields.get(field), field)


def is_text(value: object, what: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, not {value!r:.100}")
    return value


def is_run(value: object) -> str:
    """Return the id of a run."""
    if not isinstance(value, str) or not RUN_ID.fullmatch(value):
        raise ValueError(f"{value!r:.100} is no run's id")
    return value


def number_of(fields: Mapping[str, Any], field: str) -> int:
    """Return a field that is a whole number from 0."""
    return is_number(fields.get(field), field)


def is_number(value: object, what: str, least: int = 0, most: int = NUMBER_MAX) -> int:
    """Return a whole number from ``least`` to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, not {value!r:.100}")
    return value

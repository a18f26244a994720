"""Ids of applications, whole or by their end: after a restart of the ResourceManager numbers begin again at 1."""

from __future__ import annotations

from collections.abc import Iterable


def is_named(id_: str, given: str) -> bool:
    """Say whether an application's id is the one that was given, or ends so (`0042`)."""
    return given in (id_, id_.removeprefix("application_")) or id_.endswith(f"_{given}")


def several(given: str, ids: Iterable[str]) -> str:
    """Return that the end of an id is that of several applications."""
    return f"{given} is the end of several applications' ids: {', '.join(ids)}; give one of them whole"

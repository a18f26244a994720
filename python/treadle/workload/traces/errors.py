"""What is wrong with a file of jobs, or with what somebody asks of a generator."""

from __future__ import annotations

from pathlib import Path

from treadle.errors import UserError


class WorkloadError(UserError):
    """A workload that cannot be read or made; the text says where it is wrong and what would be right."""


def wrong(path: Path, where: str, text: str) -> WorkloadError:
    """Return the error for a place in a file: ``file: where: text``; an empty ``where`` is the whole file."""
    return WorkloadError(f"{path}: {where}: {text}" if where else f"{path}: {text}")

"""The formats of the files that `treadle plan` reads."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """What a file is."""

    DAG = "dag"
    PSPLIB = "psplib"

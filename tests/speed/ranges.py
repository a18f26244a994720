"""What is measured, and what of it is as before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Self

import yaml
from annotated_types import Len
from pydantic import BaseModel, ConfigDict, Field, model_validator

FILE: Final = Path(__file__).with_name("ranges.yaml")


class Range(BaseModel):
    """The bound of a ratio, today's figure to the recorded commit's: `least` where more is better, else `most`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    least: Annotated[float, Field(gt=0, le=1)] | None = None
    most: Annotated[float, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.least is None) == (self.most is None):
            raise ValueError("a figure needs either least or most")
        return self

    def is_worse(self, ratio: float) -> bool:
        """Return whether a ratio is beyond the bound."""
        return ratio < self.least if self.least is not None else self.most is not None and ratio > self.most

    def is_better(self, ratio: float) -> bool:
        """Return whether a ratio is beyond the bound's mirror image: the recorded commit is no measure any more."""
        return ratio > 1 / self.least if self.least is not None else self.most is not None and ratio < 1 / self.most

    def __str__(self) -> str:
        """Return the bound in words."""
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


class Load(BaseModel):
    """A command of Treadle's that writes `--out`, and the figures of it that count, by their path in that."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Annotated[tuple[str, ...], Len(min_length=1)]
    figures: Annotated[dict[str, Range], Len(min_length=1)]
    one_core: bool = False
    """Whether both sides run at the same time on one core: for figures of CPU time."""


class Ranges(BaseModel):
    """All of ranges.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
    rounds: Annotated[int, Field(ge=1)]
    loads: Annotated[dict[str, Load], Len(min_length=1)]


def read(file: Path = FILE) -> Ranges:
    """Read a file of ranges."""
    return Ranges.model_validate(yaml.safe_load(file.read_text()))


def figure_at(report: Any, path: str) -> float:
    """Return the number at a path of keys and indices, dots between; raise KeyError if there is none."""
    found = report
    for part in path.split("."):
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise KeyError(f"{path}: nothing at {part}") from error
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise KeyError(f"{path}: {found!r} is not a number")
    return float(found)

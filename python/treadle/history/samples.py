"""Pilot measurements of a running job, as a store keeps them for a sidecar that starts anew."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import numpy as np

from treadle.events import Samples

COUNT_MAX: Final = 2**31 - 1
TIME_MAX: Final = 2.0**62
SUM_MAX: Final = 1e300


class Sample(NamedTuple):
    """One row of `treadle.events.Samples`, which says what each number is; the application is identified by its id."""

    sampling: int
    stage: int
    width: int
    pilots: int
    ended: int
    total_ms: float
    squares: float
    mean_ms: float
    error: float
    percent: float
    since_ms: int
    container_ms: float
    sized: int = 0
    sized_ms: float = 0.0
    sized_bytes: float = 0.0
    sized_squares: float = 0.0
    sized_products: float = 0.0
    sized_duration_squares: float = 0.0

    def to_json(self) -> list[float]:
        """Return a document of which `from_json` makes an equal sample."""
        return list(self)

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Return the sample of a document.

        Raises:
            ValueError: it is none of `to_json`'s.
        """
        if not isinstance(document, list) or len(document) != len(cls._fields):
            raise ValueError(f"a sample is a list of {', '.join(cls._fields)}")
        for name, value in zip(cls._fields, document, strict=True):
            kind = int if name in _WHOLE else int | float
            least, most = _BOUNDS.get(name, (0.0, TIME_MAX))
            if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:
                raise ValueError(f"{name} of a sample is {value!r}")
        return cls(*document)


_WHOLE: Final = frozenset({"sampling", "stage", "width", "pilots", "ended", "since_ms", "sized"})
_BOUNDS: Final = {
    "sampling": (0, 3),
    **dict.fromkeys(("stage", "width", "pilots", "ended", "sized"), (0, COUNT_MAX)),
    **dict.fromkeys(("squares", "sized_squares", "sized_products", "sized_duration_squares"), (0.0, SUM_MAX)),
    "mean_ms": (-1.0, TIME_MAX),
    "percent": (0.0, 100.0),
    "since_ms": (-TIME_MAX, TIME_MAX),
}


def sample_at(samples: Samples, row: int) -> Sample:
    """Return a row of an event."""
    return Sample(**{name: getattr(samples, name)[row].item() for name in Sample._fields})


def samples_event(rows: list[tuple[int, Sample]]) -> Samples:
    """Return the event of samples, each with the index of its application."""
    columns: dict[str, Any] = {"application": np.array([application for application, _ in rows], np.int32)}
    for name in Sample._fields:
        kind = np.int64 if name == "since_ms" else np.int32 if name in _WHOLE else np.float64
        columns[name] = np.array([getattr(sample, name) for _, sample in rows], kind)
    return Samples(**columns)

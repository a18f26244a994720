"""What the engine should know of a DAG that an application master has told of: a row for each request priority."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from treadle.am.protocol import TASKS_MAX, VERTICES_MAX

Claims = npt.NDArray[np.void]

CLAIM: Final = np.dtype(
    [
        ("priority", "<i4"),
        ("tasks", "<i4"),  # not ended yet; -1: not known
        ("duration_ms", "<i8"),  # of a task; -1: not known
        ("deviation_ms", "<i8"),  # -1: not known
        ("score", "<f8"),  # of the next task to start; -1: there is no plan
    ]
)

CLAIMS_MAX: Final = 3 * VERTICES_MAX
"""A vertex of Tez has three priorities."""

DURATION_MAX_MS: Final = 2**40
"""No task is believed to have taken longer."""


class VertexView(NamedTuple):
    """What the engine should know of a vertex."""

    low: int
    """The largest of its three request priorities."""
    score: float
    """Of the next task to start (`PlannedJob.scores`); -1 if there is no plan."""
    duration_ms: int
    """-1 if not known; so are the next two."""
    deviation_ms: int
    tasks_left: int


class DagView(NamedTuple):
    """What the engine should know of the DAG that an attempt runs."""

    version: int
    """Another one whenever anything has changed."""
    vertices: tuple[VertexView, ...]
    """Those whose priorities are known."""


def claims_of(view: DagView | None) -> Claims:
    """Return a row for each priority of a DAG, in ascending order; none without a DAG.

    A vertex's lowest number is for tasks that have failed: a plan wants them at once.
    """
    found: dict[int, tuple[int, int, int, int, float]] = {}
    for vertex in view.vertices if view else ():
        rest = (vertex.tasks_left, vertex.duration_ms, vertex.deviation_ms)
        again = vertex.score if vertex.score < 0 else 1.0
        for above, score in enumerate((vertex.score, vertex.score, again)):
            found[vertex.low - above] = (vertex.low - above, *rest, score)
    return np.array([found[priority] for priority in sorted(found)], CLAIM)


def read_claims(content: bytes) -> Claims:
    """Return the rows in some bytes, which nobody has checked.

    Raises:
        ValueError: they are none.
    """
    rows: Any = np.frombuffer(content, CLAIM)
    if len(rows) > CLAIMS_MAX:
        raise ValueError(f"{len(rows)} claims; at most {CLAIMS_MAX} are taken")
    if not bool((np.diff(rows["priority"].astype(np.int64)) > 0).all()):
        raise ValueError("claims whose priorities do not ascend")
    for name, most in (("tasks", TASKS_MAX), ("duration_ms", DURATION_MAX_MS), ("deviation_ms", DURATION_MAX_MS)):
        if not bool(((rows[name] >= -1) & (rows[name] <= most)).all()):
            raise ValueError(f"claims of an impossible {name}")
    if not bool(((rows["score"] == -1.0) | ((rows["score"] >= 0.0) & (rows["score"] <= 1.0))).all()):
        raise ValueError("claims of an impossible score")
    return cast(Claims, rows)

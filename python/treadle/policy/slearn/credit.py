"""What a job may have on history's word while its pilots run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from treadle.compiled.array_types import F64
from treadle.compiled.functions import inner
from treadle.compiled.structs import tables
from treadle.policy.slearn.confidence import level_of, stage_told, told_size_ms
from treadle.policy.state import UNBOUNDED

if TYPE_CHECKING:
    from treadle.model.tables import View


@tables
class Credit(NamedTuple):
    """How far history is believed before pilots have ended."""

    part: float
    """A job may use so large a part of the cluster; 0: its pilots alone."""
    deviations: float
    """It is taken for so many deviations larger than history says."""
    thresholds_ms: F64
    """Between the levels."""
    sampling_level: int
    """Pilots run at this level, or at a higher one if history says so."""
    totals: F64
    """The cluster's resources."""


@inner
def level_on_credit(view: View, app: int, credit: Credit) -> int:
    """Return the level of a job if it is so many deviations larger than was told, -1 if nothing was told."""
    stage = stage_told(view, app)
    if credit.part <= 0.0 or stage < 0:
        return -1
    size_ms = told_size_ms(view, app, stage, credit.deviations)
    return level_of(size_ms, credit.thresholds_ms) if size_ms > 0.0 else -1


@inner
def level_by_now(view: View, app: int, pilots_ms: float, credit: Credit) -> int:
    """Return the level that pilots would say if they ended now; together they have run for ``pilots_ms``."""
    stage = stage_told(view, app)
    mean_ms = pilots_ms / max(view.apps[app].pilots + view.apps[app].replacements, 1)
    size_ms = told_size_ms(view, app, stage, 0.0) * mean_ms / view.told[stage].duration_ms
    return level_of(size_ms, credit.thresholds_ms)


@inner
def tasks_on_credit(view: View, row: int, credit: Credit) -> int:
    """Return how many containers of an ask make up the part of the cluster that a job may use."""
    share = 0.0
    for r in range(len(credit.totals)):
        if view.counted[r] and credit.totals[r] > 0.0:
            share = max(share, view.capability[row, r] / credit.totals[r])
    return int(credit.part / share + 1e-9) if share > 0.0 else UNBOUNDED

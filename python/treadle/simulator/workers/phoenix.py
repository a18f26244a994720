"""Phoenix on top of Eagle: demand over supply, expected waits, workers that others need, and negotiation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.simulator import inner
from treadle.simulator.workers.draws import draw

if TYPE_CHECKING:
    from treadle.simulator.workers.state import Workers


@inner
def sparing(run: Workers, group: int) -> int:
    """Return a random worker of a group that others need little."""
    worker, other = draw(run, group), draw(run, group)
    return other if run.need[other] < run.need[worker] else worker


@inner
def take_by_crv(run: Workers, worker: int, chosen: int) -> int:
    """Return the probe to take where demand over supply counts; `chosen` is Eagle's."""
    return chosen

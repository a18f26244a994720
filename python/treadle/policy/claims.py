"""What applications say of their own tasks, as far as it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner, kernel
from treadle.policy.work import ended_ms_of, ended_of, hint_group

if TYPE_CHECKING:
    from treadle.compiled.array_types import Records
    from treadle.model.tables import View


@inner
def seen_ms(view: View, more: Records, group: int, default_ms: float, now_ms: int) -> float:
    """Return how long containers of a group live in the mean, as far as the RM has seen.

    One that runs counts at least ``default_ms``: it has shown nothing yet. So does a group without any.
    """
    if group < 0 or ended_of(view, more, group) + view.groups[group].running == 0:
        return default_ms
    ended, running = ended_of(view, more, group), view.groups[group].running
    lived_ms = float(ended_ms_of(view, more, group))
    if running > 0:
        lived_ms += max(float(running * now_ms - view.groups[group].created_ms), running * default_ms)
    return lived_ms / (ended + running)


@kernel
def floor_claims(view: View, more: Records, keys: int, now_ms: int, default_ms: float, part: float) -> None:
    """Let no claim count below what the RM sees.

    The tasks of a key are no fewer than what is asked for and what runs at its priority, the duration of one no shorter
    than a ``part`` of the life of a container: one that is used again has had several tasks. ``keys`` is how many keys
    something is known, ``more`` what has ended besides what the model counts (`Scratch.ended`).
    """
    for at in range(keys):
        if view.hints[at].application < 0:
            continue
        group = hint_group(view, at)
        if view.hints[at].claimed_tasks >= 0:
            row = view.hints[at].row
            there = view.groups[group].running if group >= 0 else 0
            there += view.rows[row].count if row >= 0 else 0
            view.hints[at].tasks = max(view.hints[at].claimed_tasks, there)
        if view.hints[at].claimed_ms >= 0:
            least_ms = part * seen_ms(view, more, group, default_ms, now_ms)
            view.hints[at].duration_ms = max(view.hints[at].claimed_ms, int(least_ms))

"""When the containers that run are expected to end, by what is known of how long tasks take."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64
from treadle.events import NodeState
from treadle.explain.situation import Situation

DRAWS: Final = 7
"""Number of draws of when containers end: the earliest, middle and latest result are used."""
DEVIATION: Final = 0.5
"""A duration of which the deviation is not known is taken to deviate by this part of it."""
LONGER: Final = 1.25
_LEAST: Final = 1e-3
_LEAST_MS: Final = 1.0


class Durations(NamedTuple):
    """How long a task takes: (mean, standard deviation) in milliseconds, NaN where nothing is known."""

    groups_ms: F64
    """(group of tasks, 2)"""
    rows_ms: F64
    """(request row, 2)"""


class Ends(NamedTuple):
    """The containers that run as tasks, in no order; masters are none."""

    node: I32
    application: I32
    queue: I32
    amounts: I64
    """(container, resource)"""
    age_ms: F64
    duration_ms: F64
    """(container, 2): mean and deviation, NaN where nobody knows."""

    def known(self) -> npt.NDArray[np.bool_]:
        """Say of which containers it is known how long they take."""
        return ~np.isnan(self.duration_ms[:, 0])

    def expected_ms(self) -> F64:
        """Return from now on when each is expected to end: the median, infinite where nobody knows."""
        return _left(self.duration_ms, self.age_ms, np.full(len(self.node), 0.5))

    def soonest(self, count: int) -> Ends:
        """Return those that are expected to end next, at most ``count``."""
        if len(self.node) <= count:
            return self
        left_ms = self.duration_ms[:, 0] - self.age_ms
        left_ms = np.where(np.isnan(left_ms), np.inf, left_ms)
        return self.those(np.sort(np.argpartition(left_ms, count)[:count]))

    def those(self, chosen: npt.NDArray[np.int64]) -> Ends:
        """Return some of them, by their places."""
        return Ends(
            self.node[chosen],
            self.application[chosen],
            self.queue[chosen],
            self.amounts[chosen],
            self.age_ms[chosen],
            self.duration_ms[chosen],
        )

    def drawn_ms(self, draw: int, seed: int) -> F64:
        """Return from now on when each ends, by chance; infinite where nobody knows."""
        chance = np.random.default_rng((seed, draw)).random(len(self.node))
        return _left(self.duration_ms, self.age_ms, chance)


class Running(NamedTuple):
    """The tasks that run."""

    node: I32
    group: I32
    age_ms: F64


def durations_of(situation: Situation, running: Running) -> Durations:
    """Return how long tasks take: as hints say, else as those of the same priority, or of the application, took.

    Where their deviation is not known it is taken to be `DEVIATION` of the mean.
    """
    view = situation.view
    groups, rows = view.groups, view.rows
    means = np.full(len(groups), np.nan)
    ended, ended_ms = _ended(situation, running)
    seen = (groups["application"] >= 0) & (ended > 0)
    means[seen] = ended_ms[seen] / ended[seen]
    of_apps = _application_means(situation, ended, ended_ms)
    other = (groups["application"] >= 0) & ~seen
    means[other] = of_apps[groups["application"][other]]
    groups_ms = np.outer(means, (1.0, DEVIATION))
    rows_ms = np.full((len(rows), 2), np.nan)
    asking = rows["application"] >= 0
    rows_ms[asking] = np.outer(of_apps[rows["application"][asking]], (1.0, DEVIATION))
    by_key = _keys(groups["application"], groups["priority"])
    _look_up(rows_ms, asking, _keys(rows["application"], rows["priority"]), by_key, groups_ms)
    hints = view.hints
    hinted = (hints["application"] >= 0) & (hints["duration_ms"] >= 0)
    mean = hints["duration_ms"].astype(np.float64)
    hints_ms = np.stack([mean, np.where(hints["deviation_ms"] >= 0, hints["deviation_ms"], DEVIATION * mean)], axis=1)
    with_row = hinted & (hints["row"] >= 0)
    rows_ms[hints["row"][with_row]] = hints_ms[with_row]
    ranked = hinted & (hints["priority"] >= 0)
    of_hints = np.where(ranked, _keys(hints["application"], hints["priority"]), -1)
    _look_up(groups_ms, groups["application"] >= 0, by_key, of_hints, hints_ms)
    return Durations(groups_ms, rows_ms)


def ends_of(situation: Situation, running: Running, durations: Durations) -> Ends:
    """Return the containers that run, with how long they have and what is known of how long they will."""
    view, group = situation.view, running.group
    application = view.groups["application"][group]
    return Ends(
        running.node,
        application,
        view.apps["queue"][application],
        view.group_amounts[group] // np.maximum(view.groups["running"][group], 1)[:, None],
        running.age_ms,
        durations.groups_ms[group],
    )


def drawn_durations(duration_ms: F64, count: int, seed: int, draw: int) -> list[list[float]]:
    """Return so many durations by chance for each row of (mean, deviation); infinite where these are not known."""
    chance = np.random.default_rng((seed, draw, 1)).random(count * len(duration_ms))
    each = _left(np.repeat(duration_ms, count, axis=0), np.zeros(len(chance)), chance)
    found: list[list[float]] = each.reshape(-1, count).tolist()
    return found


def _left(duration_ms: F64, age_ms: F64, chance: F64) -> F64:
    """Return how much longer tasks run that have run for some time: log-logistic durations, given their age."""
    unknown = np.isnan(duration_ms[:, 0] + duration_ms[:, 1])
    mean = np.maximum(np.where(unknown, 0.0, duration_ms[:, 0]), _LEAST_MS)
    part = np.where(unknown, 0.0, duration_ms[:, 1]) / mean
    sigma = np.sqrt(np.log1p(np.square(np.maximum(part, _LEAST))))
    steepness = np.pi / (np.sqrt(3.0) * sigma)
    median = np.log(mean) - np.square(sigma) / 2
    age = np.log(np.maximum(age_ms, _LEAST_MS))
    survived = np.logaddexp(0.0, steepness * (age - median)) - np.log1p(-chance)
    whole = np.exp(median + (survived + np.log1p(-np.exp(-np.maximum(survived, _LEAST)))) / steepness)
    left: F64 = np.where(unknown, np.inf, np.maximum(whole - age_ms, 0.0))
    return left


def running_of(situation: Situation) -> Running:
    """Return the tasks that run, and for how long they have."""
    view = situation.view
    pairs = view.task_index
    live = pairs["value"][pairs["key"] >= 0]
    node, group, created_ms = (view.tasks[name][live] for name in ("node", "group", "created_ms"))  # by column: faster
    here = (view.groups["application"][group] >= 0) & (view.nodes["state"][node] != NodeState.GONE)
    age_ms = np.maximum(situation.now_ms - created_ms[here], 0).astype(np.float64)
    return Running(node[here], group[here], age_ms)


def _ended(situation: Situation, running: Running) -> tuple[F64, F64]:
    """Return for each group how many tasks have ended, and how long they took together.

    Those that end first are the short ones. So tasks that have run for longer than the mean count as if they ended
    when they have run `LONGER` times as long.
    """
    groups = situation.view.groups
    ended: F64 = groups["ended"].astype(np.float64)
    ended_ms: F64 = groups["ended_ms"].astype(np.float64)
    age_ms, group = running.age_ms, running.group
    longer = (ended[group] > 0) & (age_ms * ended[group] > ended_ms[group])
    more = np.bincount(group[longer], np.ones(np.count_nonzero(longer)), len(groups))
    more_ms = np.bincount(group[longer], LONGER * age_ms[longer], len(groups))
    return ended + more, ended_ms + more_ms


def _application_means(situation: Situation, ended: F64, ended_ms: F64) -> F64:
    """Return for each application how long its tasks that ended took in the mean, NaN if none has."""
    application, count = situation.view.groups["application"], len(situation.view.apps)
    here = application >= 0
    tasks = np.bincount(application[here], ended[here], count)
    took_ms = np.bincount(application[here], ended_ms[here], count)
    means: F64 = np.divide(took_ms, tasks, out=np.full(count, np.nan), where=tasks > 0)
    return means


def _keys(application: npt.NDArray[np.integer], priority: npt.NDArray[np.integer]) -> I64:
    """Return a number for each pair; -1 where there is no application."""
    keys: I64 = (application.astype(np.int64) << 32) | (priority.astype(np.int64) & 0x7FFFFFFF)
    return np.where(application >= 0, keys, -1)


def _look_up(to: F64, which: npt.NDArray[np.bool_], keys: I64, known: I64, values: F64) -> None:
    """Set the rows ``which`` whose key is among ``known`` to the values there, as far as these are numbers."""
    if not len(known):
        return
    order = np.argsort(known, kind="stable")
    place = np.minimum(np.searchsorted(known[order], keys), len(known) - 1)
    found = order[place]
    hit = which & (keys >= 0) & (known[found] == keys) & ~np.isnan(values[found, 0])
    to[hit] = values[found[hit]]

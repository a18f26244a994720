"""The gate that runs a job's pilots first (SLearn).

It selects the jobs to sample, the number of pilots, and when the gate opens (SLearn, NSDI 2022, section 5.1.2).
"""

from __future__ import annotations

from collections import deque
from math import sqrt
from typing import Final, Literal

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, I32, I64, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find, pair
from treadle.config.parts import Parameters
from treadle.events import ApplicationState
from treadle.model.cluster import Cluster
from treadle.model.containers import GONE, group_key
from treadle.model.tables import MAX_PARTITIONS, View
from treadle.policy.asks import find_headroom, is_over_limit, refused
from treadle.policy.parts import ACTIVE, BY_PILOTS, NEVER, Gate, Keeper
from treadle.policy.slearn.estimates import (
    Z90,
    History,
    is_confident,
    level_by_history,
    level_by_now,
    tasks_within_quota,
    widest_ahead,
)
from treadle.policy.slearn.table import (
    MAPS,
    NEW,
    OPEN,
    RUNS_PILOTS,
    THIN,
    UNKNOWN,
    PilotKeeper,
    Sampled,
    is_of_stage,
    mark_jobs,
)
from treadle.policy.state import UNBOUNDED
from treadle.policy.unserved import missing_share
from treadle.policy.work import add_up_nodes
from treadle.yarn.codes import FAILED_MAP, REDUCE

HUNG_AGAIN_MS: Final = 1000
"""Interval of the check for more hung pilots, once one may hang, in ms."""

VARIATION: Final = 0.5
"""Default coefficient of variation of the tasks of a stage.

The same as `treadle_lab.estimators.VARIATION`."""
VARIATION_DEGREES: Final = 2.0
"""Degrees of freedom of that default (`treadle_lab.estimators.VARIATION_DEGREES`)."""


@inner
def first_stage(view: View, app: int, mapreduce: int) -> int:
    """Return the stage to sample: MapReduce's maps, or Tez's stage with the lowest requested priorities."""
    if view.apps[app].type == mapreduce:
        return MAPS
    stage, row = 1 << 30, view.apps[app].first_row
    while row >= 0:
        if view.rows[row].count > 0:
            stage = min(stage, (view.rows[row].priority + 2) // 3)
        row = view.rows[row].next
    return stage


@inner
def begun_of(view: View, sampled: Sampled, app: int) -> tuple[int, int]:
    """Return how many tasks of the stage run or have succeeded, and how many of them run."""
    begun, running, group = 0, 0, view.apps[app].first_group
    while group >= 0:
        if is_of_stage(sampled.jobs[app].sampled_stage, view.groups[group].priority):
            begun += view.groups[group].running + view.groups[group].ended + sampled.ended[group].ended
            running += view.groups[group].running
        group = view.groups[group].next
    return begun, running


@inner
def pending_of(view: View, sampled: Sampled, app: int) -> tuple[int, int]:
    """Return the number of requested containers of the stage, and how many of them are proposed."""
    pending, proposed, row = 0, 0, view.apps[app].first_row
    while row >= 0:
        if is_of_stage(sampled.jobs[app].sampled_stage, view.rows[row].priority):
            pending += view.rows[row].count
            proposed += view.rows[row].assumed
        row = view.rows[row].next
    return pending, proposed


@inner
def take_back_failed(view: View, sampled: Sampled, app: int) -> None:
    """Discard one pilot measurement for each map that is requested again.

    A failed map may exit with status 0 like a successful one: only the repeated request shows the failure. The pilot is
    unknown, so the others' mean stays; if all have failed, there is no measurement.
    """
    failures, row = -sampled.jobs[app].ended_badly, view.apps[app].first_row
    while row >= 0:
        if view.rows[row].priority == FAILED_MAP:
            failures += view.rows[row].count
        row = view.rows[row].next
    group = find(view.group_index, group_key(app, FAILED_MAP))
    failures += view.groups[group].running + view.groups[group].ended if group >= 0 else 0
    more = min(failures - sampled.jobs[app].failures, sampled.jobs[app].pilots_ended)
    sampled.jobs[app].failures = max(failures, sampled.jobs[app].failures)
    if more <= 0:
        return
    left = (sampled.jobs[app].pilots_ended - more) / sampled.jobs[app].pilots_ended
    sampled.jobs[app].pilots_ended -= more
    sampled.jobs[app].pilots_ms *= left
    sampled.jobs[app].pilots_squares *= left
    if sampled.jobs[app].pilots_ended == 0:
        sampled.jobs[app].pilot_mean_ms = -1.0
        sampled.jobs[app].sized = 0
        sampled.jobs[app].sized_ms = sampled.jobs[app].sized_bytes = sampled.jobs[app].sized_squares = 0.0
        sampled.jobs[app].sized_products = sampled.jobs[app].sized_duration_squares = 0.0


@inner
def may_be_sampled(view: View, sampled: Sampled, app: int, mapreduce: int, tez: int) -> bool:
    """Return whether an application may be sampled, and record its stage; discount failed maps for all."""
    known = view.apps[app].type == mapreduce or view.apps[app].type == tez
    if not known or view.apps[app].state != ACTIVE or view.apps[app].awaiting_am:
        return False
    if sampled.jobs[app].sampling == UNKNOWN:
        if view.apps[app].pending == 0:
            return False
        sampled.jobs[app].sampled_stage = first_stage(view, app, mapreduce)
    elif view.apps[app].type == mapreduce:
        take_back_failed(view, sampled, app)
    return bool(sampled.jobs[app].sampling != OPEN)


@kernel
def find_new(
    view: View,
    sampled: Sampled,
    which: I32,
    mapreduce: int,
    tez: int,
    thin_limit: int,
    history: History,
    new: I32,
) -> int:
    """Record the width of some jobs, and which are thin or known; list those to sample, return their number.

    ``mapreduce`` and ``tez`` are the name indices of the application types to sample, -1 for none. A job may seem thin
    when its first requests arrive, and turn out wide before it has started more tasks than pilots. Its width is that of
    its widest stage, as far as hints include it.
    """
    count = 0
    for app in which:
        if not may_be_sampled(view, sampled, app, mapreduce, tez):
            continue
        phase = sampled.jobs[app].sampling
        pending, begun = pending_of(view, sampled, app)[0], begun_of(view, sampled, app)[0]
        sampled.jobs[app].width = max(sampled.jobs[app].width, pending + begun - max(sampled.jobs[app].failures, 0))
        if pending == 0:
            continue
        if phase == RUNS_PILOTS:
            # History lookups run asynchronously: results arrive a tick after the first requests.
            if is_confident(view, sampled, app, history):
                sampled.jobs[app].sampling = OPEN
                sampled.jobs[app].pilot_percent = 0.0
            continue
        if max(sampled.jobs[app].width, widest_ahead(view, app)) < thin_limit:
            sampled.jobs[app].sampling = THIN
        elif begun > 1 and phase == THIN:
            continue
        elif is_confident(view, sampled, app, history):
            sampled.jobs[app].sampling = OPEN
        else:
            new[count] = app
            count += 1
    return count


@kernel
def begin_sampling(view: View, sampled: Sampled, new: I32, percents: F64, now_ms: int) -> None:
    """Start to sample applications, each with its ratio; tasks that are already running become the first pilots.

    If more tasks have started than pilots are required, such as after a restart of the sidecar, nothing is held back.
    """
    for at in range(len(new)):
        app = new[at]
        sampled.jobs[app].sampling = RUNS_PILOTS
        sampled.jobs[app].sampled_since_ms = now_ms
        sampled.jobs[app].pilot_percent = percents[at]
        sampled.jobs[app].pilots = pilots_of(sampled.jobs[app].width, percents[at])
        begun, group = 0, view.apps[app].first_group
        while group >= 0:
            task = view.groups[group].first
            while task >= 0 and is_of_stage(sampled.jobs[app].sampled_stage, view.groups[group].priority):
                sampled.pilot[task] = 1
                begun += 1
                task = view.tasks[task].next
            group = view.groups[group].next
        sampled.jobs[app].pilots_running = begun
        if begun_of(view, sampled, app)[0] > sampled.jobs[app].pilots:
            sampled.jobs[app].sampling = OPEN
            sampled.jobs[app].pilot_percent = 0.0


@inner
def pilots_of(width: int, percent: float) -> int:
    """Return the number of pilots among ``width`` tasks: ``percent`` of them, rounded down, and at least one."""
    return max(1, int(width * percent / 100.0 + 1e-9))


@inner
def age_of_pilots(view: View, sampled: Sampled, app: int, now_ms: int, timeout_ms: int) -> tuple[float, int]:
    """Return the total run time of the running pilots, in ms, and how many of them have exceeded the timeout."""
    age, hung, group = 0.0, 0, view.apps[app].first_group
    while group >= 0:
        task = view.groups[group].first
        while task >= 0:
            if sampled.pilot[task]:
                age += max(now_ms - view.tasks[task].created_ms, 0)
                hung += now_ms - view.tasks[task].created_ms >= timeout_ms
            task = view.tasks[task].next
        group = view.groups[group].next
    return age, hung


@inner
def scale_to_inputs(view: View, sampled: Sampled, app: int, left: float) -> None:
    """Replace the pilots' mean by the estimate for a task with mean input, if inputs are known.

    The ratio estimator of survey sampling: durations over inputs of the pilots, times the mean input of all tasks. Its
    standard error is that of a mean, with deviations from the ratio times the inputs in place of deviations from the
    mean. Pilots are not a random sample where an application starts with its largest inputs.
    """
    count, total = sampled.jobs[app].sized, sampled.jobs[app].sized_bytes
    if count == 0 or total <= 0.0 or view.apps[app].input_bytes <= 0.0 or sampled.jobs[app].sized_ms <= 0.0:
        return
    ratio = sampled.jobs[app].sized_ms / total
    mean_ms = sampled.jobs[app].sized_ms / count
    squares = sampled.jobs[app].sized_duration_squares - 2.0 * ratio * sampled.jobs[app].sized_products
    squares += ratio * ratio * sampled.jobs[app].sized_squares
    spread = VARIATION_DEGREES * VARIATION * VARIATION + max(squares, 0.0) / (mean_ms * mean_ms)
    sampled.jobs[app].pilot_mean_ms = ratio * view.apps[app].input_bytes
    sampled.jobs[app].pilot_error = sqrt(spread / (count - 1 + VARIATION_DEGREES) * left / count)


@inner
def open_gate(view: View, sampled: Sampled, app: int, more_ms: float, more: int) -> None:
    """Admit all tasks of an application, and store its pilots' measurements.

    The standard error of their mean is s / sqrt(m) * sqrt(1 - m / width); s combines the pilots' variation with the
    default one, as in `treadle_lab.estimators.pilots`. Pilots that are still running have run for ``more_ms`` in total
    and count as if they ended now.
    """
    sampled.jobs[app].sampling = OPEN
    ended = sampled.jobs[app].pilots_ended
    count = ended + more
    total_ms = sampled.jobs[app].pilots_ms + more_ms
    if count == 0 or total_ms <= 0.0:
        return
    sampled.jobs[app].pilot_mean_ms = total_ms / count
    spread = VARIATION_DEGREES * VARIATION * VARIATION
    if ended > 0 and sampled.jobs[app].pilots_ms > 0.0:
        mean_ms = sampled.jobs[app].pilots_ms / ended
        spread += max(sampled.jobs[app].pilots_squares / (mean_ms * mean_ms) - ended, 0.0)
    variance = spread / (max(ended - 1, 0) + VARIATION_DEGREES)
    left = max(0.0, 1.0 - count / max(sampled.jobs[app].width, 1))
    sampled.jobs[app].pilot_error = sqrt(variance * left / count)
    scale_to_inputs(view, sampled, app, left)


@inner
def is_made_again(priority: int, mapreduce: bool) -> bool:
    """Return whether containers of a priority repeat failed tasks."""
    return bool(priority == FAILED_MAP if mapreduce else priority % 3 == 1)


@inner
def missing_pilots(view: View, sampled: Sampled, app: int, mapreduce: bool) -> int:
    """Return how many pilots are yet to start; proposed ones have started."""
    wanted = sampled.jobs[app].pilots + sampled.jobs[app].replacements
    missing = wanted - sampled.jobs[app].pilots_running - sampled.jobs[app].pilots_ended
    row = view.apps[app].first_row
    while row >= 0:
        if is_of_stage(sampled.jobs[app].sampled_stage, view.rows[row].priority):
            # Repeated tasks count as pilots, which they may become.
            again = is_made_again(view.rows[row].priority, mapreduce)
            missing -= view.rows[row].count if again else view.rows[row].assumed
        row = view.rows[row].next
    return missing


@inner
def apply_quota(view: View, sampled: Sampled, app: int, missing: int, history: History, now_ms: int) -> bool:
    """Set the level of a job's pilots; return whether other tasks may run at the same time."""
    level = level_by_history(view, sampled, app, history)
    if level >= 0:
        so_far_ms = sampled.jobs[app].pilots_ms + age_of_pilots(view, sampled, app, now_ms, 0)[0]
        level = max(level, level_by_now(view, sampled, app, so_far_ms, history))
    has_quota = level >= 0 and missing <= 0
    sampled.jobs[app].sampling_level = level if has_quota else min(level, history.sampling_level)
    return has_quota


@inner
def hold_rows(
    view: View,
    sampled: Sampled,
    rows: Records,
    app: int,
    mapreduce: bool,
    missing: int,
    has_quota: bool,
    history: History,
) -> None:
    """Admit as many containers of the stage as pilots are missing, and no later stage.

    With a quota by history, admit as many as it allows, running and ended ones included.
    """
    stage = sampled.jobs[app].sampled_stage
    given = begun_of(view, sampled, app)[0] + pending_of(view, sampled, app)[1] if has_quota else 0
    row = view.apps[app].first_row
    while row >= 0:
        priority = view.rows[row].priority
        if is_of_stage(stage, priority):
            if not is_made_again(priority, mapreduce):
                quota = max((tasks_within_quota(view, row, history) if has_quota else missing) - given, 0)
                rows[row].quota = quota
                rows[row].held = 1
                rows[row].random = not has_quota
                given += max(min(quota, view.rows[row].count - view.rows[row].assumed), 0)
        elif (mapreduce and priority == REDUCE) or (not mapreduce and (priority + 2) // 3 > stage):
            rows[row].may = 0
        row = view.rows[row].next


@inner
def hold_reduces(view: View, rows: Records, app: int) -> None:
    """Hold back the reduces of an application whose maps wait.

    Reduces have the better request priority, and running ones occupy the resources of maps. An application master with
    waiting and no running maps kills its own reduces to make room (``preemptReducesIfNeeded``).
    """
    row = view.apps[app].first_row
    while row >= 0:
        if view.rows[row].priority == REDUCE:
            rows[row].may = 0
        row = view.rows[row].next


@kernel
def hold_back(
    view: View,
    sampled: Sampled,
    rows: Records,
    which: I32,
    now_ms: int,
    mapreduce: int,
    pilot_timeout_ms: int,
    hold_timeout_ms: int,
    history: History,
) -> int:
    """Open the gate for jobs with complete samples, and hold back the others that are sampled.

    Other tasks run within ``history``. Returns the time (ms) of the next check without events, `NEVER` if none is
    needed.
    """
    due_ms = NEVER
    for app in which:
        if sampled.jobs[app].sampling == UNKNOWN or view.apps[app].state != ACTIVE:
            continue
        is_mapreduce = view.apps[app].type == mapreduce
        if not is_mapreduce and sampled.jobs[app].sampling != RUNS_PILOTS:
            continue
        pending = pending_of(view, sampled, app)[0]
        if is_mapreduce and pending > 0:
            hold_reduces(view, rows, app)
        if sampled.jobs[app].sampling != RUNS_PILOTS:
            continue
        wanted = pilots_of(sampled.jobs[app].width, sampled.jobs[app].pilot_percent)
        sampled.jobs[app].pilots = max(sampled.jobs[app].pilots, wanted)
        # A clock that stepped back must not prolong the hold.
        since_ms = min(sampled.jobs[app].sampled_since_ms, now_ms)
        sampled.jobs[app].sampled_since_ms = since_ms
        if now_ms - since_ms >= pilot_timeout_ms:
            _, hung = age_of_pilots(view, sampled, app, now_ms, pilot_timeout_ms)
            sampled.jobs[app].replacements = max(sampled.jobs[app].replacements, hung)
        if sampled.jobs[app].pilots_ended >= sampled.jobs[app].pilots or (
            pending == 0 and begun_of(view, sampled, app)[1] == 0
        ):
            open_gate(view, sampled, app, 0.0, 0)
        elif now_ms - since_ms >= hold_timeout_ms:
            age_ms, _ = age_of_pilots(view, sampled, app, now_ms, pilot_timeout_ms)
            open_gate(view, sampled, app, age_ms, sampled.jobs[app].pilots_running)
        else:
            missing = missing_pilots(view, sampled, app, is_mapreduce)
            has_quota = apply_quota(view, sampled, app, missing, history, now_ms)
            if pending > 0:
                hold_rows(view, sampled, rows, app, is_mapreduce, missing, has_quota, history)
            again_ms = max(since_ms, now_ms - pilot_timeout_ms) + pilot_timeout_ms
            if again_ms <= now_ms:
                again_ms = now_ms + HUNG_AGAIN_MS
            due_ms = min(due_ms, again_ms, since_ms + hold_timeout_ms)
    return due_ms


STARTED: Final = -1
"""``APPLICATION.master_since_ms`` of an application that has requested containers."""


@kernel
def hold_masters(view: View, rows: Records, which: I32, now_ms: int, timeout_ms: int, waiting: I32, found: I64) -> None:
    """Hold back and list the AMs without a container, neither allocated nor proposed, of some applications.

    Writes to ``found`` their number, the number of starting AMs, and the time when the first of these is late (`NEVER`:
    none starts). An AM starts from its container to its first request, unless it is late.
    """
    found[0] = found[1] = 0
    found[2] = NEVER
    for app in which:
        row, since_ms = view.apps[app].first_row, view.apps[app].master_since_ms
        if view.apps[app].state != ACTIVE:
            since_ms = 0
        elif view.apps[app].awaiting_am:
            since_ms = 0
            if row >= 0 and view.apps[app].pending > view.apps[app].assumed_count:
                waiting[found[0]] = app
                found[0] += 1
                while row >= 0:
                    rows[row].may = 0
                    row = view.rows[row].next
            else:
                found[1] += 1
        elif since_ms == STARTED or view.apps[app].pending > 0 or view.apps[app].first_group >= 0:
            since_ms = STARTED
        else:
            # A clock that stepped back must not prolong the start.
            since_ms = now_ms if since_ms == 0 or since_ms > now_ms else since_ms
            if now_ms - since_ms < timeout_ms:
                found[1] += 1
                found[2] = min(found[2], since_ms + timeout_ms)
        view.apps[app].master_since_ms = since_ms


@inner
def is_allowed(view: View, totals: F64, headroom: I64, app: int, row: int, cycle: int) -> bool:
    """Return whether an application's AM would stay within its queues' maxima and its user's limit."""
    leaf, partition = view.apps[app].queue, view.rows[row].partition
    if leaf < 0 or not view.limit_known[leaf, partition]:
        return False
    if view.apps[app].backoff_until > cycle or view.rows[row].backoff_until > cycle:
        return False
    user = find(view.user_index, pair(leaf * MAX_PARTITIONS + partition, view.apps[app].user))
    if user >= 0 and is_over_limit(view, totals, user, leaf, partition):
        return False
    find_headroom(view, headroom, leaf, partition, False)
    return refused(view, headroom, 0, app, row, user) == 0


@inner
def finds_node(view: View, nowhere: I64, row: int, cycle: int) -> bool:
    """Return whether some node has room for an AM's row, and is not reserved for another one.

    ``nowhere`` has the last request without a node by partition, so that not every AM needs a search.
    """
    known, partition = True, view.rows[row].partition
    for r in range(len(view.counted)):
        known = known and view.capability[row, r] >= nowhere[partition, r]
    if known:
        return False
    for node in range(len(view.nodes)):
        usable = view.nodes[node].state == 1 and view.nodes[node].partition == partition
        usable = usable and view.nodes[node].backoff_until <= cycle
        usable = usable and (view.nodes[node].hold_row < 0 or view.nodes[node].hold_row == row)
        if usable and missing_share(view, row, node) == 0.0:
            return True
    for r in range(len(view.counted)):
        nowhere[partition, r] = view.capability[row, r]
    return False


@kernel
def admit_masters(
    view: View, rows: Records, waiting: I32, slots: int, cycle: int, totals: F64, headroom: I64, nowhere: I64
) -> bool:
    """Admit the first ``slots`` AMs of a list; return whether this holds others back.

    AMs whose queue or user is at its limit are skipped, so that they block no others. AMs for which no node has room
    now are admitted additionally, since in this cycle they only get a node reserved.
    """
    for app in waiting:
        if slots <= 0:
            return True
        first = view.apps[app].first_row
        if not is_allowed(view, totals, headroom, app, first, cycle):
            continue
        slots -= finds_node(view, nowhere, first, cycle)
        row = first
        while row >= 0:
            rows[row].may = 1
            row = view.rows[row].next
    return False


START: Final = (3.0, 2.0, 4.0)
"""Percentages of the first T jobs, the second and the third."""
GAIN: Final = 1.1
"""Cost factor of 3 % above which the search continues in the same direction."""


class AdaptiveRatio:
    """The percentage of a job's tasks that are pilots: the one with the lowest recent cost, from 1 to 5.

    The first T jobs use 3 %, the second T 2 %, and the third T 4 %; later ones use the ratio with the lowest mean
    normalised completion time of its last T jobs. If that is 2 % and 3 % costs more than 1.1 times as much, 1 % is
    tried; likewise 5 % beyond 4 %. Ties go to the smaller ratio, and 3 % applies until a job has ended; the paper
    leaves both open.
    """

    def __init__(self, jobs: int = 100) -> None:
        """Start with 3 %; ``jobs`` is T."""
        self._jobs = jobs
        self._begun = 0
        self._scores: dict[float, deque[float]] = {}

    def next_percent(self) -> float:
        """Return the percentage for the next job."""
        turn = self._begun // self._jobs
        if turn < len(START):
            self._begun += 1
            return START[turn]
        means = {percent: sum(scores) / len(scores) for percent, scores in sorted(self._scores.items())}
        if not means:
            return START[0]
        best = min(means, key=means.__getitem__)
        tried_further = {2.0: 1.0, 4.0: 5.0}.get(best)
        if tried_further is not None and GAIN * means[best] < means.get(3.0, 0.0):
            return tried_further
        return best

    def ended(self, percent: float, normalised: float) -> None:
        """Add the result of a job sampled with this percentage: completion time over total task time."""
        self._scores.setdefault(percent, deque(maxlen=self._jobs)).append(normalised)


class PilotsParameters(Parameters):
    """Parameters of the gate `pilots`; defaults are those of SLearn where it has them."""

    ratio: Literal["adaptive", "fixed"] = Field(
        default="adaptive", description="Whether the part of a job that is sampled follows how jobs fared, or is fixed."
    )
    ratio_fraction: float = Field(
        default=0.03, gt=0.0, le=1.0, description="The fraction of a job's tasks that is sampled, if it is fixed."
    )
    ratio_jobs: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="How many of the latest jobs of each ratio the adaptive ratio is computed from.",
    )
    thin_limit: int = Field(
        default=3, ge=0, le=1_000_000, description="Jobs with fewer tasks are not sampled and go to the highest level."
    )
    work_conserving: bool = Field(
        default=True, description="Whether idle machines run tasks that are held back, by arrival."
    )
    trusted_deviation: float = Field(
        default=0.0,
        ge=0.0,
        le=1e6,
        description="A job is not sampled whose task time has a hint with at most so large a deviation, as a part of "
        "it; 0: all are.",
    )
    settled_fraction: float = Field(
        default=0.0,
        ge=0.0,
        le=10.0,
        description="Nor is one whose level history settles (order: mlfq): so much of its size's 90 % interval, by "
        "logarithms, lies in one level, or not above that of pilots; 0: all are.",
    )
    history_fraction: float = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="While pilots run, a job has up to this fraction of the cluster at the level of the upper end of "
        "its size's 90 % interval by history (order: mlfq); 0: its pilots alone.",
    )
    max_concurrent_am_starts: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How many application masters start at a time, first come first served: where their starts share "
        "processors, all are late if all start at once; 0: any number.",
    )
    am_start_timeout_ms: int = Field(
        default=60_000, ge=1000, le=2**40, description="An AM that has asked for nothing by then counts as started."
    )
    tez: bool = Field(
        default=False, description="Whether Tez is sampled too; only for clusters where Tez does not reuse containers."
    )
    pilot_timeout_ms: int = Field(
        default=600_000, ge=1000, le=2**40, description="A pilot that has run for longer is replaced by one more."
    )
    hold_timeout_ms: int = Field(
        default=1_800_000, ge=1000, le=2**40, description="No job is held back for longer than this."
    )

    def needs(self) -> tuple[str, ...]:
        """Return the required event sources: the history store, if history is used."""
        return ("history.store",) if self.trusted_deviation or self.settled_fraction or self.history_fraction else ()


class PilotsGate(Gate, kind="pilots", parameters=PilotsParameters, traits=BY_PILOTS):
    """A few tasks of each stage first, to learn how long they take; the rest when they have ended.

    Held back are only MapReduce's maps, and Tez's vertices if set so; reduces and vertices after the one that is
    sampled get nothing as long as anything of it is held back. Attempts at tasks that failed are never held back, nor
    is Spark.
    """

    keeper: type[Keeper] | None = PilotKeeper
    kept: PilotKeeper

    def __init__(self, parameters: PilotsParameters) -> None:
        self._parameters = parameters
        self.opens_for_idle = parameters.work_conserving
        self.know_levels(np.zeros(0), 0)
        self._fixed_percent = round(100 * parameters.ratio_fraction, 9)
        self._ratio = None if parameters.ratio == "fixed" else AdaptiveRatio(parameters.ratio_jobs)

    def know_levels(self, thresholds_ms: F64, sampling_level: int) -> None:
        """Receive the order's levels, which history must distinguish."""
        chosen, has_levels = self._parameters, len(thresholds_ms) > 0
        deviations, part = Z90 * chosen.settled_fraction * has_levels, chosen.history_fraction * has_levels
        self._history = History(chosen.trusted_deviation, deviations, part, thresholds_ms, sampling_level, np.zeros(0))

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Hold back tasks that wait for pilots, and admit everything else."""
        chosen, which = self._parameters, cluster.apps.in_use()
        kept, sampled = self.kept, self.kept.fit(cluster)
        self._learn(view.apps, sampled.jobs, which, now_ms)
        if len(cluster.ended):
            cluster.ended["state"] = int(ApplicationState.GONE)
            self._learn(cluster.ended, kept.ended_jobs, np.arange(len(kept.ended_jobs), dtype=np.int32), now_ms)
            kept.ended_jobs = kept.ended_jobs[:0]
        mapreduce = cluster.names.index_of("MAPREDUCE")
        tez = cluster.names.index_of("TEZ") if chosen.tez else -1
        history = self._history._replace(totals=np.zeros(len(view.counted)))
        add_up_nodes(view, history.totals)
        rows["may"] = 1
        new = np.empty(len(which), np.int32)
        count = find_new(view, sampled, which, mapreduce, tez, chosen.thin_limit, history, new)
        percents = np.full(count, self._fixed_percent)
        if self._ratio is not None:
            percents[:] = [self._ratio.next_percent() for _ in range(count)]
        begin_sampling(view, sampled, new[:count], percents, now_ms)
        timeouts_ms = chosen.pilot_timeout_ms, chosen.hold_timeout_ms
        self.due_ms = int(hold_back(view, sampled, rows, which, now_ms, mapreduce, *timeouts_ms, history))
        self.waits_for = "pilots" if _holds_back(view, rows) else ""
        if chosen.max_concurrent_am_starts > 0:
            self.due_ms = min(self.due_ms, self._start_masters(cluster, view, now_ms, rows))
            if not self.waits_for and _holds_back(view, rows):
                self.waits_for = "application masters that start"

    def mark(self, cluster: Cluster, apps: Records) -> None:
        """Set fraction, level and future work of jobs whose pilots have not ended, and of thin ones."""
        mark_jobs(self.kept.fit(cluster).jobs, apps, cluster.apps.in_use(), self._history.sampling_level)

    def open_for_idle(self, rows: Records) -> bool:
        """Admit only held rows."""
        held = rows["held"] == 1
        rows["may"] = held
        rows["quota"][held] = UNBOUNDED
        rows["done"][held] = rows["random"][held] = 0
        return bool(held.any())

    def _start_masters(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> int:
        """Limit the number of starting AMs, first come first served; return the time (ms) of the next check."""
        chosen, which, resources = self._parameters, cluster.apps.in_use(), len(view.counted)
        waiting, found = np.empty(len(which), np.int32), np.empty(3, np.int64)
        hold_masters(view, rows, which, now_ms, chosen.am_start_timeout_ms, waiting, found)
        count, starting, late_ms = map(int, found)
        waiting = waiting[:count]
        waiting = waiting[np.argsort(view.apps["start_time_ms"][waiting], kind="stable")]
        totals, headroom = np.empty(resources), np.empty(resources, np.int64)
        add_up_nodes(view, totals)
        nowhere = np.full((len(cluster.names.partitions), resources), NEVER)
        slots = chosen.max_concurrent_am_starts - starting
        held = admit_masters(view, rows, waiting, slots, cluster.cycle, totals, headroom, nowhere)
        return late_ms if held else NEVER

    def _learn(self, apps: Records, jobs: Records, which: I32, now_ms: int) -> None:
        """Report ratio and normalised completion time of ended jobs; their rows become those of new jobs."""
        ended = which[apps["state"][which] == GONE]
        ended = ended[jobs["sampling"][ended] != UNKNOWN]
        measured = ended[(jobs["pilot_percent"][ended] > 0.0) & (apps["container_ms"][ended] > 0.0)]
        took_ms = np.maximum(now_ms - apps["submit_time_ms"][measured], 0)
        normalised = took_ms / apps["container_ms"][measured]
        if self._ratio is not None:
            for percent, score in zip(jobs["pilot_percent"][measured].tolist(), normalised.tolist(), strict=True):
                self._ratio.ended(percent, score)
        jobs[ended] = NEW[0]


def _holds_back(view: View, rows: Records) -> bool:
    """Return whether more is requested than may be served now."""
    wanted = view.rows["count"].astype(np.int64) - view.rows["assumed"]
    served = np.where(rows["may"] == 1, rows["quota"], 0)
    return bool(((view.rows["application"] >= 0) & (wanted > served)).any())

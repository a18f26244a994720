"""How many application masters may start at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.model.kernel.compiled import inner, kernel

if TYPE_CHECKING:
    from treadle.model.types import Records
    from treadle.model.view import View

NEVER: Final = 1 << 62
STARTED: Final = -1
"""``APPLICATION.master_since_ms`` of one that has asked for something."""
ACTIVE: Final = 1
"""`treadle.events.ApplicationState.ACTIVE`."""


@inner
def waits_for_master(view: View, app: int) -> bool:
    """Say whether an application's master has no container, neither allocated nor proposed."""
    if view.apps[app].state != ACTIVE or not view.apps[app].awaiting_am:
        return False
    return bool(view.apps[app].pending > view.apps[app].assumed_count and view.apps[app].first_row >= 0)


@inner
def is_starting(view: View, app: int, now_ms: int, timeout_ms: int) -> bool:
    """Say whether an application's master has its container, has asked for nothing yet, and is not late."""
    if view.apps[app].state != ACTIVE:
        view.apps[app].master_since_ms = 0
        return False
    if view.apps[app].awaiting_am:
        view.apps[app].master_since_ms = 0
        return not waits_for_master(view, app)
    if view.apps[app].pending > 0 or view.apps[app].first_group >= 0:
        view.apps[app].master_since_ms = STARTED
    if view.apps[app].master_since_ms == STARTED:
        return False
    # A clock that stepped back must not let it start for longer.
    if view.apps[app].master_since_ms == 0 or view.apps[app].master_since_ms > now_ms:
        view.apps[app].master_since_ms = now_ms
    return bool(now_ms - view.apps[app].master_since_ms < timeout_ms)


@inner
def first_waiting(view: View, rows: Records, size: int) -> int:
    """Return the application that came first of those that await their master and are not let through yet, or -1."""
    first = -1
    for app in range(size):
        if not waits_for_master(view, app) or rows[view.apps[app].first_row].may:
            continue
        earlier = first < 0 or view.apps[app].start_time_ms < view.apps[first].start_time_ms
        if earlier or (view.apps[app].start_time_ms == view.apps[first].start_time_ms and app < first):
            first = app
    return first


@kernel
def hold_masters(view: View, rows: Records, size: int, now_ms: int, most: int, timeout_ms: int) -> int:
    """Let only so many application masters start at a time, first come first served.

    Returns when to look again though nothing happens, `NEVER` if that is never.
    """
    starting, due_ms = 0, NEVER
    for app in range(size):
        if is_starting(view, app, now_ms, timeout_ms):
            starting += 1
            if view.apps[app].master_since_ms > 0:
                due_ms = min(due_ms, view.apps[app].master_since_ms + timeout_ms)
        if waits_for_master(view, app):
            row = view.apps[app].first_row
            while row >= 0:
                rows[row].may = 0
                row = view.rows[row].next
    while starting < most:
        app = first_waiting(view, rows, size)
        if app < 0:
            return NEVER
        row = view.apps[app].first_row
        while row >= 0:
            rows[row].may = 1
            row = view.rows[row].next
        starting += 1
    return due_ms if first_waiting(view, rows, size) >= 0 else NEVER

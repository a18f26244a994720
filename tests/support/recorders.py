"""Recorders of profiles that work on the test's own thread, and stores that cannot be opened at first."""

from __future__ import annotations

from collections.abc import Callable

from treadle.config.settings import JobHistory
from treadle.history.database import StoreError, Unusable
from treadle.history.store import ProfileStore, open_store
from treadle.live.history_writer import ProfileRecorder


def work_off(recorder: ProfileRecorder) -> None:
    """Let a recorder that was not started work on all that it has taken."""
    while recorder._waiting:
        recorder._next()


def refusing_once(reason: Unusable) -> Callable[[str, JobHistory], ProfileStore]:
    """Return what opens a store, but fails the first time."""
    refused = False

    def opening(location: str, retention: JobHistory) -> ProfileStore:
        nonlocal refused
        if not refused:
            refused = True
            raise StoreError(location, reason)
        return open_store(location, retention)

    return opening

"""What a recorder of profiles has taken, worked off on the test's own thread: nothing is waited for."""

from __future__ import annotations

from treadle.live.history_writer import ProfileRecorder


def work_off(recorder: ProfileRecorder) -> None:
    """Let a recorder that was not started work on all that it has taken."""
    while recorder._waiting:
        recorder._next()

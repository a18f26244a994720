"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest


def eventually(ask: Callable[[], Any], timeout_s: float = 300.0) -> Any:
    """Return the first answer that is neither None nor false; a test whose answer never comes fails."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        # the last question is asked after the deadline, so that a pause of the machine refuses nobody
        late = time.monotonic() >= deadline_s
        if found := ask():
            return found
        if late:
            pytest.fail(f"not within {timeout_s:g} s")
        time.sleep(0.01)

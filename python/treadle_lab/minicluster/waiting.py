"""Waits until something holds of a cluster whose ResourceManager may not answer for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import requests

from treadle_lab.minicluster.settings import ClusterError


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float, poll_s: float, more: str = "") -> Any:
    """Wait until `condition` gives something true, and return that; an RM that does not answer counts as not yet.

    Args:
        what: what is waited for, in words
        condition: looks whether it is there
        timeout_s: when the wait ends
        poll_s: how long to wait between two looks
        more: what the error says beside that

    Raises:
        ClusterError: it did not within the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            value = condition()
        except requests.RequestException:
            value = None
        if value:
            return value
        if time.monotonic() > deadline:
            raise ClusterError(f"no {what} within {timeout_s:g} s{more}")
        time.sleep(poll_s)

"""What is ended before the process is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)

Close = Callable[[str], None]
"""Ends something before the process does, given the reason; takes at most a moment."""


def close_all(closing: Sequence[Close], why: str) -> None:
    """End everything, whatever fails of it."""
    for close in closing:
        try:
            close(why)
        except Exception:  # the process ends, whatever it was
            _log.exception("something was not ended well")

"""The store of profiles as the sidecar uses it: opened when needed, left alone for a while when it cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from treadle.config.settings import Profiles
from treadle.history.database import StoreError
from treadle.history.retention import Retention
from treadle.history.store import ProfileStore, open_store
from treadle.live.stored_profiles import retention_of

_log = logging.getLogger(__name__)

RETRY_MS: Final = 60_000
"""How long a store that could not be used is left alone."""

OpenStore = Callable[[str, Retention], ProfileStore]

T = TypeVar("T")


class PatientStore:
    """A store that may be missing, full, broken or busy, for one thread.

    `opened` is called with the store each time that it was opened.
    """

    def __init__(self, opened: Callable[[ProfileStore], None], open_: OpenStore = open_store) -> None:
        self._open = open_
        self._opened = opened
        self._settings = Profiles()
        self._store: ProfileStore | None = None
        self._refused_ms: int | None = None
        self.problem = ""
        """Why the store could not be used when it was last tried; empty if it could."""

    def follow(self, settings: Profiles) -> None:
        """Use the store of other settings from now on; the one before is closed, nothing is opened yet."""
        self._close("")
        self._settings = settings
        self._refused_ms = None

    def may_try(self, now_ms: int) -> bool:
        """Say whether the store may be asked now."""
        # a clock that stepped back must not keep it closed
        return self._refused_ms is None or abs(now_ms - self._refused_ms) >= RETRY_MS

    def use(self, now_ms: int, action: Callable[[ProfileStore], T]) -> T | None:
        """Do something with the store; None if it cannot be used, which is logged once."""
        if not self.may_try(now_ms):
            return None
        self._refused_ms = now_ms
        try:
            done = action(self._ready())
        except StoreError as error:
            self._close(str(error))
            return None
        self._refused_ms = None
        return done

    def _ready(self) -> ProfileStore:
        if self._store is None:
            self._store = self._open(self._settings.store, retention_of(self._settings))
            self._opened(self._store)
            self.problem = ""
            _log.info("jobs are remembered in %s", self._store.name)
        return self._store

    def _close(self, problem: str) -> None:
        if problem and problem != self.problem:
            _log.warning("jobs are not remembered: %s", problem)
        self.problem = problem
        if self._store is not None:
            self._store.close()
            self._store = None

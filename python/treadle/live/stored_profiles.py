"""Profiles of the store, for the planner."""

from __future__ import annotations

import logging
from threading import Lock

from treadle.config.settings import Profiles
from treadle.history.database import Retention, StoreError
from treadle.history.profile import JobProfile, RecurrenceKey
from treadle.history.store import ProfileStore, open_store

_log = logging.getLogger(__name__)


def retention_of(settings: Profiles) -> Retention:
    """Return how much a store keeps by the settings."""
    return Retention(
        settings.age_days, settings.rows_per_user, settings.size_mb, settings.user_mb, settings.application_mb
    )


class StoredProfiles:
    """Looks up profiles in the store of the settings, which another process or thread may write."""

    def __init__(self, settings: Profiles) -> None:
        self._settings = settings
        self._store: ProfileStore | None = None
        self._lock = Lock()

    def find(self, key: RecurrenceKey) -> JobProfile | None:
        """Return a profile; None if there is none, or the store cannot be used."""
        if not self._settings.store:
            return None
        try:
            with self._lock:
                self._store = self._store or open_store(self._settings.store, read_only=True)
            return self._store.get(key)
        except StoreError as error:
            _log.info("a DAG is planned without its history: %s", error)
            return None

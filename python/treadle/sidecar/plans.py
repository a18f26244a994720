"""The plan listener of a sidecar: put together when it starts, if treadle.yaml names an address."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock

from treadle.config.settings import Profiles, Settings
from treadle.errors import UserError
from treadle.events import Event, Samples
from treadle.planner.warm_up import warm_up
from treadle.plans.desk import PlanDesk
from treadle.plans.history import History
from treadle.plans.keys import KeyRing
from treadle.plans.listener import PlanListener
from treadle.plans.protocol import Header, Kind, Status
from treadle.plans.stages import StageDesk
from treadle.profiles.errors import StoreError
from treadle.profiles.profile import JobProfile
from treadle.profiles.recurrence import RecurrenceKey
from treadle.profiles.run import JobRun
from treadle.profiles.store import ProfileStore, open_store
from treadle.sidecar.plan_teller import PlanTeller
from treadle.sidecar.recorder import StagesOf
from treadle.sidecar.session import Teller
from treadle.wire.decoder import Frame

_log = logging.getLogger(__name__)


class NoPlans:
    """Stands for a listener that could not be opened: says so, and nothing else."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def tell(self, _frame: Frame) -> Sequence[Event]:
        """Return nothing."""
        return ()

    def learn(self, _samples: Samples) -> None:
        """Take nothing."""

    def forget(self) -> None:
        """Forget nothing."""

    def summary(self) -> str:
        """Return why there are no plans."""
        return f"no plans: {self._reason}"

    def keys_for(self) -> Sequence[str]:
        """Return no type."""
        return ()


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


def open_plans(
    settings: Settings, remember: Callable[[JobRun], None], ask_stages: Callable[[StagesOf], None]
) -> Teller | None:
    """Open the plan listener that the settings name.

    Args:
        settings: what to follow, as long as the process lives
        remember: is given each DAG that has succeeded
        ask_stages: is given whom to ask for the stages of an application that has

    Returns:
        who tells the engine of plans; None without an address
    """
    wanted = settings.listener
    if not wanted.address:
        return None
    warm_up()
    keys = KeyRing()
    desk, stages = PlanDesk(settings.plans, History(StoredProfiles(settings.profiles).find, remember)), StageDesk()

    def serve(header: Header, body: bytes) -> tuple[Status, bytes]:
        return (stages.serve(header.attempt, body), b"") if header.kind is Kind.STAGES else desk.serve(header, body)

    try:
        listener = PlanListener(wanted.address, wanted.port, keys, serve)
    except UserError as error:
        _log.error("%s", error)
        return NoPlans(str(error))
    _log.info("application masters may ask for plans at %s port %d", wanted.address, listener.port)
    ask_stages(stages.take)
    return PlanTeller(desk, keys, stages)

"""The listener, its registries and its keys in one: takes what the RM reports, gives what the engine needs.

It has no thread of its own but the listener's. Who serves hostile requests with it should be a process of its own
(`treadle.live.plan_child`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from treadle.am.listener import PlanListener
from treadle.am.protocol import Attempt, Header, KeyRing, Kind, Status
from treadle.am.quotas import FairQueue, Rates
from treadle.am.record import Claims, FindProfile, History, claims_of
from treadle.am.registries import Amounts, PlanRegistry, StageRegistry
from treadle.config.settings import Listener, Plans
from treadle.history.run import JobRun, recurrence_key

SPARK: Final = "SPARK"
TYPES: Final = ("TEZ", SPARK)
"""The application types whose AMs may ask for plans, or report stages."""


class PlanService:
    """For several threads."""

    def __init__(
        self, plans: Plans, find: FindProfile = lambda _: None, remember: Callable[[JobRun], None] = lambda _: None
    ) -> None:
        """Begin with no attempt.

        Args:
            plans: the settings
            find: a profile of the store; None if there is none
            remember: is given each DAG that has succeeded
        """
        self.keys = KeyRing()
        self.plans = PlanRegistry(plans, History(find, remember), changed=self._changed)
        self.stages = StageRegistry()
        self.rates = Rates()
        self._users: dict[Attempt, str] = {}
        self._news: FairQueue[Attempt] = FairQueue()
        self._lock = Lock()

    def listen(self, listener: Listener) -> PlanListener:
        """Open the port.

        Raises:
            UserError: it cannot be opened.
        """
        return PlanListener(
            listener.address, listener.port, self.keys, self.serve, self._allows, encrypt=listener.encrypt
        )

    def meet(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        """Take that an attempt runs: whose it is, in which queue, and its application type in upper case."""
        with self._lock:
            self._users[attempt] = user
        if type_ == SPARK:
            self.stages.meet(attempt, user)
        else:
            self.plans.meet(attempt, recurrence_key(user, queue, type_, ""))

    def part(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""
        self.plans.part(attempt)
        self.stages.part(attempt)
        self.keys.forget(attempt)
        with self._lock:
            self._users.pop(attempt, None)

    def give_key(self, attempt: Attempt, number: int, key: bytes) -> None:
        """Take a key of an attempt."""
        self.keys.give(attempt, number, key)

    def machines(self, groups: Sequence[tuple[Amounts, int]]) -> None:
        """Take how many usable nodes there are of each kind, and what they have."""
        self.plans.machine_groups(groups)

    def serve(self, header: Header, body: bytes) -> tuple[Status, bytes]:
        """Answer an authenticated request.

        Raises:
            MessageError: its body is damaged.
        """
        if header.kind is Kind.STAGES:
            return self.stages.serve(header.attempt, body), b""
        return self.plans.serve(header, body)

    def take(self, application: str) -> list[bytes]:
        """Return the stages that an application has reported, as they came, once."""
        return self.stages.take(application)

    def news(self) -> tuple[str, Attempt, Claims] | None:
        """Return a user's attempt and what the engine should know of its DAG; users in turn; None without news."""
        with self._lock:
            if not self._news:
                return None
            user, attempt = self._news.pop()
        return user, attempt, claims_of(self.plans.view(attempt))

    def _changed(self, user: str, attempt: Attempt) -> None:
        with self._lock:
            self._news.put(user, attempt)

    def _allows(self, attempt: Attempt, size_bytes: int) -> bool:
        return self.rates.allows(attempt, self._users.get(attempt, ""), size_bytes)

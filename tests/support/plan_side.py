"""A plan listener's registries in this process, in the place of a listener of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from treadle.am.listener import PlanService
from treadle.am.protocol import Attempt
from treadle.am.record import Claims
from treadle.am.registries import Amounts


class LocalPlans:
    """A `treadle.live.plan_source.PlanSide` without a process."""

    def __init__(self, service: PlanService) -> None:
        self.service = service
        self._claims: dict[Attempt, Claims] = {}

    def meet(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        """Hand it to the service."""
        self.service.meet(attempt, user, queue, type_)

    def part(self, attempt: Attempt) -> None:
        """Hand it to the service."""
        self.service.part(attempt)

    def give_key(self, attempt: Attempt, number: int, key: bytes) -> None:
        """Hand it to the service."""
        self.service.give_key(attempt, number, key)

    def machines(self, nodes: Mapping[int, Amounts]) -> None:
        """Hand it to the service."""
        self.service.machines(list(Counter(nodes.values()).items()))

    def news(self) -> Attempt | None:
        """Ask the service."""
        news = self.service.news()
        if news is None:
            return None
        _, attempt, self._claims[attempt] = news
        return attempt

    def claims(self, attempt: Attempt) -> Claims | None:
        """Return what the service said last."""
        return self._claims.get(attempt)

    def summary(self) -> str:
        """Nothing is wrong."""
        return ""

    def problem(self) -> str:
        """Nothing is wrong."""
        return ""

"""The plan listener of a sidecar: put together when it starts, if treadle.yaml names an address."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from treadle.config.settings import Settings
from treadle.errors import UserError
from treadle.events import Event, Samples
from treadle.profiles.run import JobRun
from treadle.sidecar.plan_link import PlanLink
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
    link = PlanLink(settings, remember)
    try:
        link.start()
    except UserError as error:
        _log.error("%s", error)
        return NoPlans(str(error))
    _log.info("application masters may ask for plans at %s port %d", wanted.address, link.port)
    ask_stages(link.take)
    return PlanTeller(link)

"""The plan listener of a sidecar: put together when it starts, if treadle.yaml names an address."""

from __future__ import annotations

from collections.abc import Callable

from treadle.config.settings import Settings
from treadle.history.run import JobRun
from treadle.live.history_writer import StagesOf
from treadle.live.plan_link import PlanLink
from treadle.live.plan_source import PlanEventSource


def open_plans(
    settings: Settings, remember: Callable[[JobRun], None], ask_stages: Callable[[StagesOf], None]
) -> PlanEventSource | None:
    """Open the plan listener that the settings name; one that cannot listen is tried again, which it reports.

    Args:
        settings: what to follow, as long as the process runs
        remember: is given each DAG that has succeeded
        ask_stages: is given whom to ask for the stages of an application that has

    Returns:
        who sends the engine plans; None without an address
    """
    if not settings.listener.address:
        return None
    link = PlanLink(settings, remember)
    link.start()
    ask_stages(link.take)
    return PlanEventSource(link)

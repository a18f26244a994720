"""The pages of the reference, by file name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treadle.reference.command_pages import commands_page
from treadle.reference.metric_pages import metrics_page
from treadle.reference.reason_pages import reasons_page
from treadle.reference.setting_pages import settings_page

NOTE: Final = "<!-- printed by python -m treadle.reference docs/reference: change the code, not this page -->"

PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "reasons.md": reasons_page,
}


def written(page: Callable[[], str]) -> str:
    """Return a page as its file has it: with a note of where it comes from."""
    return f"{NOTE}\n\n{page()}"

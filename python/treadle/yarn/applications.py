"""What YARN says of applications, by the ResourceManager's REST pages: their states, and its diagnostics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import requests

from treadle.errors import UserError
from treadle.yarn.application_ids import is_named
from treadle.yarn.pages import read_page

ENDED: Final = ("FINISHED", "FAILED", "KILLED")
"""States in which an application stays."""
DIAGNOSTICS_MAX: Final = 16 << 10
"""Characters of diagnostics that are shown; a user's program wrote some of them."""

_PATH: Final = "/ws/v1/cluster/apps"
_TEXT_MAX: Final = 256
_PAGE_BYTES_MAX: Final = 64 << 20
_ID: Final = re.compile(r"(?:application_)?(\d{1,19}_\d{1,10})")


class YarnApplication(NamedTuple):
    """An application as the ResourceManager shows it; texts may hold what users wrote."""

    id: str
    name: str
    user: str
    queue: str
    state: str
    final_status: str
    """How it ended, by what its application master said; ``UNDEFINED`` before that."""
    diagnostics: str

    @property
    def has_ended(self) -> bool:
        """Whether it asks for nothing any more."""
        return self.state in ENDED


def find_applications(rm: str, given: str, ca: Path | None = None) -> list[YarnApplication]:
    """Return the applications that a ResourceManager knows by an id or the end of it, those that have ended too.

    Raises:
        UserError: it does not answer, or something else does.
    """
    whole = _ID.fullmatch(given)
    try:
        if whole is not None:
            return _one(rm, f"application_{whole.group(1)}", ca)
        content = read_page(rm, _PATH, {"deSelects": "resourceRequests"}, ca, _PAGE_BYTES_MAX).content
        listed = (content["apps"] or {}).get("app") or []
        return [_application(each) for each in listed if is_named(str(each["id"]), given)]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{rm}{_PATH}: the page has another form than a ResourceManager's; check --rm") from error


def _one(rm: str, id_: str, ca: Path | None) -> list[YarnApplication]:
    try:
        page = read_page(rm, f"{_PATH}/{id_}", {"deSelects": "resourceRequests"}, ca, _PAGE_BYTES_MAX)
    except UserError as error:
        response = getattr(error.__cause__, "response", None)
        if response is not None and response.status_code == requests.codes.not_found:
            return []
        raise
    return [_application(page.content["app"])]


def _application(app: Mapping[str, Any]) -> YarnApplication:
    def text(name: str, most: int = _TEXT_MAX) -> str:
        return str(app.get(name) or "")[:most]

    diagnostics = text("diagnostics", DIAGNOSTICS_MAX).strip()
    return YarnApplication(
        str(app["id"])[:_TEXT_MAX],
        text("name"),
        text("user"),
        text("queue"),
        text("state"),
        text("finalStatus"),
        diagnostics,
    )

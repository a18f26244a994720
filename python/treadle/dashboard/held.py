"""Which nodes engines keep free, asked beside the looks: an engine that hangs must not make the dashboard blind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread
from typing import Any, Final

from treadle.dashboard.cluster import HeldNode, held_of
from treadle.errors import UserError, printable

_log = logging.getLogger(__name__)

WAIT_S: Final = 0.4
"""How long a look waits for engines, so that looks come as often as before; what is later is shown by the next one."""

NOT_YET: Final = "an engine has not answered yet"

Held = Callable[[], list[dict[str, Any]]]
"""Returns the nodes that engines keep free; raises `UserError` if they cannot be asked."""


def nobody_tells() -> list[dict[str, Any]]:
    """Report no held node.

    Raises:
        UserError: always.
    """
    raise UserError("nobody can be asked")


class HeldNodes:
    """Asks engines on a thread of its own, one question at a time."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._asking: Thread | None = None
        self._found: tuple[list[HeldNode], str] = [], ""

    def ask(self, wait_s: float | None = None) -> tuple[list[HeldNode], str]:
        """Return the nodes that engines keep free, and why that is not known; empty if it is."""
        if self._asking is None:
            self._asking = Thread(target=self._ask, name="held", daemon=True)
            self._asking.start()
        self._asking.join(WAIT_S if wait_s is None else wait_s)
        if self._asking.is_alive():
            return [], NOT_YET
        self._asking = None
        return self._found

    def _ask(self) -> None:
        try:
            self._found = held_of(self._held()), ""
        except UserError as error:  # elsewhere than on the ResourceManager's host that is no trouble
            self._found = [], printable(str(error))
        except Exception as error:  # pages say so; whoever looks goes on
            _log.exception("engines cannot be asked which nodes they keep free")
            self._found = [], printable(f"{type(error).__name__}: {error}")

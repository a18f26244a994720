"""Whether Treadle schedules a cluster now, by the bean of its ResourceManager; if not, why."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from treadle.cli._jmx import read_bean
from treadle.errors import UserError
from treadle.yarn.treadle_beans import why_not

WAIT_S: Final = 30.0
REFUSED_S: Final = 1.0
"""A refusal that lasts longer than this concerns the new policy, not the one before."""

_POLL_S: Final = 0.2


def confirm(rm: str, policy: str, pause: Callable[[float], None] = time.sleep, ca: Path | None = None) -> str:
    """Wait until a cluster is scheduled by a policy that its engine runs, and return a sentence for the user.

    In mode ``observe_only`` nothing is scheduled by any policy; the sentence says that.

    Raises:
        UserError: the cluster is not scheduled by it; the text says why.
    """
    refused, looks, bean = 0, int(WAIT_S / _POLL_S), dict[str, Any]()
    for _ in range(looks):
        bean = read_bean(rm, "Treadle", ca)
        reason = why_not(bean)
        if not reason:
            return f"the cluster runs {policy}"
        if bean.get("Mode") == "observe_only":
            return f"the engine proposes by {policy}; {reason}"
        refused = refused + 1 if bean.get("Refusal") else 0
        if refused * _POLL_S > REFUSED_S or "Schedules" not in bean:
            break
        pause(_POLL_S)
    raise UserError(f"the cluster does not run {policy}: {why_not(bean)}")

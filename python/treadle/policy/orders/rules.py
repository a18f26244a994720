"""The compiled steps of the order that was chosen. Written by `python -m treadle.policy.dispatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.policy.orders import fair

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import Scratch

RULES: Final = {"fair": 1}
"""The number of each file with compiled steps."""


@inner
def follows_use(order: int) -> bool:
    """Say whether keys follow what is used as containers are placed: `key` has them."""
    return order == 1


@inner
def key(view: View, scratch: Scratch, leaf: int, app: int) -> float:
    """Return an application's key as it is now, the smallest first."""
    if scratch.queues[leaf].order == 1:
        return fair.key(view, scratch, leaf, app)
    return 0.0

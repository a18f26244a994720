"""The compiled steps of the fit that was chosen. Written by `python -m treadle.policy.dispatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.policy.fits import keyed, packing

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch

RULES: Final = {"keyed": 0, "packing": 1}
"""The number of each file with compiled steps."""


@inner
def score(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int, level: int) -> float:
    """Return how well an ask fits on a node with room."""
    if parameters.fit == 0:
        return keyed.score(view, scratch, parameters, row, node, level)
    if parameters.fit == 1:
        return packing.score(view, scratch, parameters, row, node, level)
    return 0.0

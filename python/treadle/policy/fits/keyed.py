"""The fit of a class of a user's: scores that it has given before the loop began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch


@inner
def score(view: View, scratch: Scratch, parameters: DecideParameters, row: int, node: int, level: int) -> float:
    """Return the score of a node, by itself or for the ask."""
    return scratch.scores[row if len(scratch.scores) > 1 else 0, node]

"""First fit."""

from __future__ import annotations

from treadle.config.parts import PARTS, NoParameters
from treadle.policy.kernel.scratch import FIRST_FIT


@PARTS.register("fit", "first_fit")
class FirstFit:
    """The first node on which the ask fits, in the order of the RM's nodes."""

    rule = FIRST_FIT
    window = 1

    def __init__(self, parameters: NoParameters) -> None:
        pass

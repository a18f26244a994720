"""First fit."""

from __future__ import annotations

from treadle.config.parts import NoParameters
from treadle.policy.parts import PlainFit
from treadle.policy.state import FIRST_FIT


class FirstFit(PlainFit):
    """The first node on which the ask fits, in the order of the RM's nodes."""

    rule = FIRST_FIT

    def __init__(self, parameters: NoParameters) -> None:
        pass

"""Chance without a state: a number for each (seed, subject, draw), whatever was drawn before.

So the same task of a workload fails, and is slow, in the same attempt under every policy.
"""

from __future__ import annotations

import math
from typing import Final

from treadle.compiled.simulator import inner

TASK_FAILS: Final = 1
TASK_SLOW: Final = 2
TASK_FACTOR: Final = 3
NODE_UP: Final = 4
NODE_DOWN: Final = 5
TASK_FAILS_AT: Final = 6


@inner
def mixed(value: int) -> int:
    """Return splitmix64's mix of 62 bits: products wrap around as in C."""
    value = (value ^ ((value >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    value = (value ^ ((value >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return value ^ ((value >> 31) & 0x1FFFFFFFF)


@inner
def uniform(seed: int, what: int, subject: int, draw: int) -> float:
    """Return a number in [0, 1) for the ``draw``-th time of something about a subject."""
    value = mixed(seed + 0x1E3779B97F4A7C15 * what)
    value = mixed(value + subject)
    value = mixed(value + draw)
    return ((value >> 11) & 0x1FFFFFFFFFFFFF) / 9007199254740992.0


@inner
def exponential(mean: float, seed: int, what: int, subject: int, draw: int) -> float:
    """Return a draw from an exponential distribution."""
    return -mean * math.log(1.0 - uniform(seed, what, subject, draw))

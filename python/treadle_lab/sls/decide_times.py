"""How long decisions took, by the shim's bean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

P50: Final = "DecideP50Us"
P99: Final = "DecideP99Us"


def decide_us(shim: Mapping[str, Any], name: str) -> float:
    """Return a quantile of the last window of ten seconds before a reading; nan if nothing was decided in it."""
    return float(shim.get(name, 0)) or math.nan

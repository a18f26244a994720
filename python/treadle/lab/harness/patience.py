"""How long a cluster of a reproduction waits for its sidecar, on a machine where all of them share a few cores."""

from __future__ import annotations

from typing import Final

_SIDECAR_START_S: Final = 300

START_TIMEOUT_S: Final = _SIDECAR_START_S + 60
"""Of a whole cluster: kernels may have to be compiled first."""

PATIENCE: Final = {
    "yarn.scheduler.treadle.lease-ms": "6000",
    "yarn.scheduler.treadle.sidecar.start-timeout-ms": str(_SIDECAR_START_S * 1000),
}
"""Settings of an RM that Treadle schedules: a dozen and more JVMs start beside its engine."""

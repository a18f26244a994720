"""How long experiments wait for a mini cluster to start, and for its applications to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final

from treadle_lab.minicluster import ClusterError, MiniCluster

_SIDECAR_START_S: Final = 300

START_TIMEOUT_S: Final = _SIDECAR_START_S + 60
"""Of a whole cluster: kernels may have to be compiled first."""

LONG_TIMEOUTS: Final = {
    "yarn.scheduler.treadle.lease-ms": "6000",
    "yarn.scheduler.treadle.sidecar.start-timeout-ms": str(_SIDECAR_START_S * 1000),
}
"""Settings of an RM that Treadle schedules: a dozen and more JVMs start beside its engine."""

ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "KILLED"})
POLL_S: Final = 0.5
STALLED_S: Final = 900.0
"""An experiment is given up when none of its applications has ended for this long; each takes a few minutes."""


def wait_ended(
    cluster: MiniCluster,
    ids: Collection[str],
    ended: Callable[[int], None],
    *,
    stalled_s: float = STALLED_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, dict[str, Any]]:
    """Wait until applications have ended; return what the ResourceManager says of each, by id.

    Args:
        cluster: where they run
        ids: theirs
        ended: called now and then with the number of those that have ended
        stalled_s: how long it may take from the end of one to that of the next
        clock: the time in seconds
        pause: waits for a number of seconds

    Raises:
        ClusterError: none ended for too long; the text names those that have not.
    """
    found: dict[str, dict[str, Any]] = {}
    states: dict[str, str] = {}
    since = clock()
    while True:
        before = len(found)
        for application in cluster.rm.applications():
            if application["id"] in ids:
                states[application["id"]] = str(application["state"])
                if application["finalStatus"] in ENDED:
                    found[application["id"]] = application
        ended(len(found))
        if len(found) == len(ids):
            return found
        now = clock()
        if len(found) > before:
            since = now
        elif now - since > stalled_s:
            missing = [
                f"{id_} ({states.get(id_, 'unknown to the ResourceManager')})" for id_ in ids if id_ not in found
            ]
            raise ClusterError(
                f"{len(missing)} of {len(ids)} applications have not ended, and none has for {stalled_s:g} s: "
                f"{', '.join(missing)}; the cluster's logs are in {cluster.layout.logs}"
            )
        pause(POLL_S)

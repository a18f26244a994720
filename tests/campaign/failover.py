"""Part failover: two RMs on one state store, jobs running, the active one killed again and again.

The oracles, after each: the killed RM's sidecar is gone and the new active RM has exactly one; books are equal; every
proposal has its fate. At the end: every job succeeded, nothing is left on the books.
"""

from __future__ import annotations

import random
import signal
import time

from tests.campaign.clusters import Jobs, check, check_idle, folder, one_sidecar
from tests.campaign.slices import Slice
from tests.support.clusters import LEASE_MS
from tests.support.pairs import PairOfResourceManagers

BEFORE_THE_END_S = 90.0


class KilledPair(PairOfResourceManagers):
    """A pair whose active RM can be killed."""

    def kill_active(self) -> None:
        """SIGKILL to the active RM; the other one takes over, and the killed one is started again, to stand by."""
        killed = self.active
        self._finish(killed, signal.SIGKILL)
        self.active = "rm2" if killed == "rm1" else "rm1"
        # without force it asks the other first whether it is active, and gives up when nobody answers
        self.admin("-transitionToActive", "--forceactive", self.active)
        self._start(killed)
        self.wait_ready()
        self.wait_for(f"standby {killed}", lambda: "standby" in self._state(killed), 120, poll_s=1.0)


def run(work: Slice) -> None:
    """Kill the active RM until the slice is over."""
    with KilledPair(folder(work.part, work.seed) / "cluster", lease_ms=LEASE_MS) as cluster:
        jobs = Jobs(cluster, random.Random(work.seed), work, only=("MapReduce",), queues=("default",), at_once=1)
        while work.left_s > min(BEFORE_THE_END_S, 30 * work.minutes) or not work.counts["failovers"]:
            jobs.keep_coming()
            jobs.wait_containers(2)
            orphans = cluster.sidecar_pids()
            begin = time.monotonic()
            cluster.kill_active()
            work.sample("active_again_s", time.monotonic() - begin)
            work.add("failovers")
            one_sidecar(cluster, work, orphans)
            check(cluster, work)
            work.say(f"{work.elapsed_s:5.0f} s  {dict(work.counts)}")
        jobs.finish()
        check_idle(cluster, work)

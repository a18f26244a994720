"""Part failover: two RMs on one state store, jobs running, the active one killed again and again.

The oracles, after each: the killed RM's sidecar is gone and the new active RM has exactly one; usage adds up; every
proposal has its fate. At the end: every job succeeded, nothing is used any more.
"""

from __future__ import annotations

import random
import signal
import time

from tests.campaign.clusters import Jobs, check, check_idle, folder, one_sidecar
from tests.campaign.slices import Slice
from tests.support.clusters import LEASE_MS
from tests.support.pairs import PairOfResourceManagers

from treadle_lab.minicluster.cluster import ResourceManagerClient
from treadle_lab.minicluster.site import LOOPBACK

BEFORE_THE_END_S = 90.0


class KilledPair(PairOfResourceManagers):
    """A pair whose active RM can be killed."""

    def kill_active(self) -> None:
        """SIGKILL to the active RM; the other one, which stood by, takes over. Returns when an engine schedules."""
        killed = self.active
        self.finish(killed, signal.SIGKILL)
        self.active = self.other
        # without force it asks the other first whether it is active, and gives up when nobody answers
        self.admin("-transitionToActive", "--forceactive", self.active)
        self.wait_ready()

    def stand_by(self) -> None:
        """Start the RM that was killed, and wait until it stands by."""
        self._start(self.other)
        standby = ResourceManagerClient(f"http://{LOOPBACK}:{self.ports[self.other][4]}")
        info = "/ws/v1/cluster/info"
        self.wait_for(
            f"standby {self.other}", lambda: standby.get(info)["clusterInfo"]["haState"] == "STANDBY", 120, poll_s=0.5
        )
        standby.close()

    @property
    def other(self) -> str:
        """The RM that is not the active one."""
        return "rm2" if self.active == "rm1" else "rm1"


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
            cluster.stand_by()
            work.say(f"{work.elapsed_s:5.0f} s  {dict(work.counts)}")
        jobs.finish()
        check_idle(cluster, work)

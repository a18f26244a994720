"""Part kills: jobs keep coming to a mini cluster while, by seed, its sidecar, its RM and its nodes are hurt.

The oracles, after every fault: usage is the sum of the containers on every node, in every queue, for every user and
application; every proposal has its fate; nothing escaped; the lease comes back, and how long that took. At the end of
a slice: every job succeeded, and in the idle cluster nobody has anything used, reserved or pending.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

from tests.campaign.clusters import LEASE_BACK_S, Jobs, check, folder, lease_back
from tests.campaign.slices import Slice
from tests.support.accounts import wait_idle
from tests.support.clusters import FaultyCluster, faulty_cluster
from tests.support.faulty_sidecar import Fault
from tests.support.sites import MODE, change

from treadle.minicluster.errors import ClusterError

KILLS_TO_A_REFRESH = 5
"""Below what the shim takes for a crash loop: an administrator's refresh ends its pauses, which the test need not wait
for."""

SETTLE_S = 120.0
"""What is kept of a slice for its last jobs."""


class Hurt:
    """A cluster and the faults that a seed chooses for it."""

    def __init__(self, cluster: FaultyCluster, work: Slice) -> None:
        self.cluster = cluster
        self.work = work
        self.numbers = random.Random(work.seed)
        self.jobs = Jobs(cluster, self.numbers, work, only=tuple(work.options["frameworks"]))
        self.since_refresh = 0
        self.faults: list[tuple[Callable[[], None], int]] = [
            (self.kill_sidecar, 74),
            (self.stop_and_continue, 6),
            (self.lie, 6),
            (self.kill_rm, 5),
            (self.lose_node, 3),
            (self.refresh_wrongly, 6),
        ]

    def one(self) -> None:
        """Hurt once, and look at everything."""
        self.jobs.keep_coming()
        faults, weights = zip(*self.faults, strict=True)
        fault = self.numbers.choices(faults, weights)[0]
        try:
            fault()
        except ClusterError as error:
            self.work.find(f"{fault.__name__}: {error}; {self.cluster.rm.treadle().get('LastError')}")
        check(self.cluster, self.work)
        done = dict(self.work.counts)
        self.work.say(f"{self.work.elapsed_s:5.0f} s  {fault.__name__:18} {done}")

    def _may_go_on(self) -> None:
        self.since_refresh += 1
        if self.since_refresh >= KILLS_TO_A_REFRESH:
            self.cluster.admin("-refreshQueues")
            self.since_refresh = 0

    def sidecar(self) -> int:
        """Wait until there is exactly one sidecar; return its process id."""
        self.cluster.wait_for("one sidecar", lambda: len(self.cluster.sidecar_pids()) == 1, LEASE_BACK_S)
        return self.cluster.sidecar_pid()

    def kill_sidecar(self) -> None:
        """SIGKILL to the sidecar."""
        first = self.sidecar()
        begin = time.monotonic()
        os.kill(first, signal.SIGKILL)
        if lease_back(self.cluster, self.work, begin):
            pids = self.cluster.sidecar_pids()
            if len(pids) != 1 or first in pids:
                self.work.find(f"after the end of sidecar {first} there are {pids}")
        self.work.add("sidecar_kills")
        self._may_go_on()

    def stop_and_continue(self) -> None:
        """SIGSTOP until the lease is lost, then SIGCONT."""
        stopped = self.sidecar()
        os.kill(stopped, signal.SIGSTOP)
        try:
            self.cluster.wait_for("lost lease", lambda: self.cluster.rm.treadle()["LeaseHeld"] == 0, 60)
        finally:
            if stopped in self.cluster.sidecar_pids():
                os.kill(stopped, signal.SIGCONT)
        lease_back(self.cluster, self.work, time.monotonic(), lost=False)
        self.work.add("sidecar_stops")
        self._may_go_on()

    def lie(self) -> None:
        """Let the sidecar answer wrongly for a while."""
        fault = self.numbers.choice([fault for fault in Fault if fault.interrupts])
        self.cluster.show_fault(fault)
        try:
            self.cluster.wait_for("lost lease", lambda: self.cluster.rm.treadle()["LeaseHeld"] == 0, 60)
        finally:
            self.cluster.heal()
        lease_back(self.cluster, self.work, time.monotonic(), lost=False)
        self.work.add("lies")
        self._may_go_on()

    def kill_rm(self) -> None:
        """SIGKILL to the RM, which recovers."""
        orphan = self.sidecar()
        begin = time.monotonic()
        self.cluster.kill_rm()
        try:
            self.cluster.wait_for("end of the sidecar", lambda: orphan not in self.cluster.sidecar_pids(), 30)
        except ClusterError as error:
            self.work.find(str(error))
        self.cluster.start_rm()
        self.cluster.wait_ready()
        self.work.sample("rm_back_s", time.monotonic() - begin)
        self.work.add("rm_kills")
        self.since_refresh = 0

    def lose_node(self) -> None:
        """A NodeManager falls silent until it counts as lost, and comes back."""
        node = self.numbers.randint(1, self.cluster.settings.nodes)
        name = self.cluster.layout.node_id(node)
        self.cluster.signal_node(node, signal.SIGSTOP)
        try:
            self.cluster.wait_for("lost node", lambda: self._state(name) == "LOST", 60)
        finally:
            self.cluster.signal_node(node, signal.SIGCONT)
        self.cluster.wait_for("node that is back", lambda: self._state(name) == "RUNNING", 120)
        self.work.add("nodes_lost")

    def _state(self, node: str) -> str:
        states = [str(each["state"]) for each in self.cluster.rm.nodes() if each["id"] == node]
        return "RUNNING" if "RUNNING" in states else states[0] if states else ""

    def mode(self) -> str:
        """Return the mode that the shim says it is in."""
        seen = self.cluster.rm.treadle()
        return str(seen.get("Mode", seen.get("tag.Mode")))

    def refresh_wrongly(self) -> None:
        """A refresh with a value that cannot be used is refused and changes nothing."""
        site = self.cluster.layout.conf / "yarn-site.xml"
        before, mode = site.read_text(), self.mode()
        try:
            wrong = self.numbers.choice(("enforced", "on", "1"))
            change(site, {MODE: wrong})
            self.cluster.admin("-refreshQueues")
            self.work.find(f"a refresh took the mode {wrong!r} without a word")
        except ClusterError as error:
            if MODE not in str(error):
                self.work.find(f"a refusal that does not name its key: {error}")
        finally:
            site.write_text(before)
        if self.mode() != mode:
            self.work.find("a refused refresh changed the mode")
        self.work.add("wrong_refreshes")


def run(work: Slice) -> None:
    """Hurt a cluster of the slice's own until the slice is over."""
    with faulty_cluster(folder(work.part, work.seed), nodes=2, memory_mb=4096, start_timeout_s=LEASE_BACK_S) as cluster:
        hurt = Hurt(cluster, work)
        while work.left_s > min(SETTLE_S, 30 * work.minutes) or not work.counts:
            hurt.one()
        hurt.jobs.finish()
        try:
            wait_idle(cluster)
        except ClusterError as error:
            work.find(str(error))
        work.add("idle_clusters_looked_at")

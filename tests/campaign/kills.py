"""Part kills: jobs keep coming to a mini cluster while, by seed, its sidecar, its RM and its nodes are hurt.

The oracles, after every fault: usage is the sum of the containers on every node, in every queue, for every user and
application; every proposal has its fate; nothing escaped; the lease comes back, and how long that took. At the end of
a slice: every job succeeded, and in the idle cluster nobody has anything used, reserved or pending.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from typing import Final

from tests.campaign.clusters import (
    LEASE_BACK_S,
    Jobs,
    check,
    check_idle,
    folder,
    last_error,
    lease_back,
    lease_lost,
    one_sidecar,
)
from tests.campaign.slices import Slice
from tests.support.clusters import FaultyCluster, faulty_cluster
from tests.support.faulty_sidecar import Fault
from tests.support.sites import MODE, change

from treadle_lab.minicluster.cluster import ADMIN_MAIN
from treadle_lab.minicluster.settings import ClusterError

FAULTS: Final = {
    "kill_sidecar": 74,
    "stop_and_continue": 6,
    "lie": 6,
    "kill_rm": 5,
    "lose_node": 3,
    "refresh_wrongly": 6,
}
"""What is done to a cluster, and how often of a hundred times."""

ENDS_TO_A_REFRESH = 3
"""Below what the shim takes for a crash loop: an administrator's refresh ends its pauses, which the test need not wait
for."""

REFUSED = 100
"""How many made-up proposals are turned down before a sidecar that makes them up is healed."""

SETTLE_S = 120.0
"""What is kept of a slice for its last jobs."""


class Hurt:
    """A cluster and the faults that a seed chooses for it."""

    def __init__(self, cluster: FaultyCluster, work: Slice) -> None:
        self.cluster = cluster
        self.work = work
        self.numbers = random.Random(work.seed)
        self.jobs = Jobs(cluster, self.numbers, work, only=tuple(work.options["frameworks"]))
        self.ends = 0
        self.refresh: subprocess.Popen[bytes] | None = None

    def one(self) -> None:
        """Hurt once, and look at everything."""
        self.jobs.keep_coming()
        faults = list(self.work.options["faults"])
        fault = self.numbers.choices(faults, [FAULTS[name] for name in faults])[0]
        begin = time.monotonic()
        try:
            getattr(self, fault)()
        except ClusterError as error:
            self.work.find(f"{fault}: {error}; {last_error(self.cluster)}")
        over = time.monotonic()
        check(self.cluster, self.work)
        took = f"{fault} {over - begin:.1f} s, looking {time.monotonic() - over:.1f} s"
        self.work.say(f"{self.work.elapsed_s:5.0f} s  {took:48} {dict(self.work.counts)}")

    def ended(self, sidecars: int = 1) -> None:
        """Note that sidecars ended; after some an administrator refreshes the queues, beside the faults that follow."""
        self.ends += sidecars
        if self.ends >= ENDS_TO_A_REFRESH:
            self.refreshed()
            command = self.cluster.java(ADMIN_MAIN, "-refreshQueues")
            self.refresh = self.cluster.submit(command, self.cluster.layout.logs / "refreshes.log")
            self.ends = 0

    def refreshed(self) -> None:
        """Wait for the refresh that is under way."""
        if self.refresh is None:
            return
        code = self.refresh.wait(timeout=120)
        self.refresh = None
        if code:
            self.work.find(f"a refresh ended with {code}: see refreshes.log in {self.cluster.layout.logs}")

    def sidecar(self) -> int:
        """Wait until there is exactly one sidecar; return its process id."""
        self.cluster.wait_for("one sidecar", lambda: len(self.cluster.sidecar_pids()) == 1, LEASE_BACK_S)
        return self.cluster.sidecar_pid()

    def kill_sidecar(self) -> None:
        """SIGKILL to the sidecar."""
        first = self.sidecar()
        begin = time.monotonic()
        os.kill(first, signal.SIGKILL)
        lease_lost(self.cluster)
        if lease_back(self.cluster, self.work, begin):
            one_sidecar(self.cluster, self.work, [first])
        self.work.add("sidecar_kills")
        self.ended()

    def stop_and_continue(self) -> None:
        """SIGSTOP until the lease is lost, then SIGCONT."""
        stopped = self.sidecar()
        os.kill(stopped, signal.SIGSTOP)
        try:
            lease_lost(self.cluster)
        finally:
            if stopped in self.cluster.sidecar_pids():
                os.kill(stopped, signal.SIGCONT)
        lease_back(self.cluster, self.work, time.monotonic(), "lease_back_after_stop_s")
        self.work.add("sidecar_stops")
        self.ended()

    def lie(self) -> None:
        """Let the sidecar answer wrongly for a while."""
        fault = self.numbers.choice([fault for fault in Fault if fault])
        before = self._rejected()
        self.cluster.show_fault(fault)
        try:
            if fault.interrupts:
                lease_lost(self.cluster)
            else:
                self.cluster.wait_for("refused proposals", lambda: self._rejected() >= before + REFUSED, 60)
        finally:
            self.cluster.heal()
        lease_back(self.cluster, self.work, time.monotonic(), "lease_back_after_lie_s")
        self.work.add("lies")
        self.work.add(f"lies_{fault.name.lower()}")
        self.ended(2)

    def _rejected(self) -> int:
        return int(self.cluster.rm.treadle()["Rejected"])

    def kill_rm(self) -> None:
        """SIGKILL to the RM, which recovers."""
        self.refreshed()
        orphan = self.sidecar()
        begin = time.monotonic()
        self.cluster.finish("rm")
        try:
            self.cluster.wait_for("end of the sidecar", lambda: orphan not in self.cluster.sidecar_pids(), 30)
        except ClusterError as error:
            self.work.find(str(error))
        self.cluster.start_rm()
        self.cluster.wait_ready()
        self.work.sample("rm_back_s", time.monotonic() - begin)
        one_sidecar(self.cluster, self.work, [orphan])
        self.work.add("rm_kills")
        self.ends = 0

    def lose_node(self) -> None:
        """A NodeManager falls silent until it counts as lost, and comes back."""
        node = self.numbers.randint(1, self.cluster.settings.nodes)
        name = self.cluster.layout.node_id(node)
        self.cluster.process(f"nm{node}").send_signal(signal.SIGSTOP)
        try:
            self.cluster.wait_for("lost node", lambda: self._state(name) == "LOST", 60)
        finally:
            self.cluster.process(f"nm{node}").send_signal(signal.SIGCONT)
        self.cluster.wait_for("node that is back", lambda: self._state(name) == "RUNNING", 120)
        self.work.add("nodes_lost")

    def _state(self, node: str) -> str:
        states = [str(each["state"]) for each in self.cluster.rm.nodes() if each["id"] == node]
        return "RUNNING" if "RUNNING" in states else states[0] if states else ""

    def mode(self) -> str:
        """Return the mode that the shim says it is in."""
        seen = self.cluster.rm.treadle()
        return str(seen.get("Mode", seen.get("Mode")))

    def refresh_wrongly(self, wrong: str = "") -> None:
        """A refresh with a value that cannot be used is refused and changes nothing."""
        self.refreshed()
        site = self.cluster.layout.conf / "yarn-site.xml"
        before, mode = site.read_text(), self.mode()
        wrong = wrong or self.numbers.choice(("enforced", "on", "1"))
        change(site, {MODE: wrong})
        try:
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
        hurt.refreshed()
        hurt.jobs.finish()
        check_idle(cluster, work)

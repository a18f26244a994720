"""A hundred thousand made-up proposals against a live RM: each turned down for its own reason, no limit broken."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.accounts import wait_adds_up, wait_idle, wait_settled
from tests.support.clusters import FaultyCluster
from tests.support.faulty_sidecar import Fault
from tests.support.jobs import sleep_job
from tests.support.limits import GPU, LICENCE, broken_limits, limited_cluster, without_licences
from tests.support.masters import Master, Masters
from tests.support.sites import MODE, change

pytestmark = pytest.mark.cluster

PROPOSALS = 100_000
CONTAINER_MB = 256
"""Of whoever has a user limit."""

AT_ONCE = (
    "Negative",
    "OutOfRange",
    "UnknownApplication",
    "InactiveApplication",
    "UnknownRequest",
    "NoPendingAsk",
    "Duplicate",
    "Blacklisted",
    "WrongPartition",
    "Locality",
    "NodeFull",
    "QueueMaximum",
    "UserLimit",
)
"""What proposals are turned down for while nodes and attempts stay."""

IN_TIME = ("FinishedAttempt", "NodeStale", "UnknownNode")
"""What they are turned down for when attempts end and a node falls silent, is lost, and has gone."""


class Siege:
    """Hostile proposals against a cluster whose applications ask and give back all the time."""

    def __init__(self, cluster: FaultyCluster, masters: list[Master]) -> None:
        self.cluster = cluster
        self.masters = masters
        self.before = cluster.rm.treadle()
        self.broken: set[str] = set()

    def until(self, what: str, condition: Callable[[], bool], timeout_s: float = 180) -> None:
        """Go on, watching limits, until something holds."""

        def looked() -> bool:
            for master in self.masters:
                master.beat()
            self.broken.update(broken_limits(self.cluster, CONTAINER_MB))
            return condition()

        self.cluster.wait_for(what, looked, timeout_s)

    def counted(self) -> dict[str, int]:
        """Return how many proposals were turned down for each reason."""
        after = self.cluster.rm.treadle()
        prefix = "Rejected"
        names = [name for name in after if name.startswith(prefix) and name != prefix]
        return {name.removeprefix(prefix): after[name] - self.before[name] for name in names}

    def missing(self, reasons: tuple[str, ...]) -> list[str]:
        """Return those of some reasons that no proposal was turned down for yet."""
        counted = self.counted()
        return [reason for reason in reasons if not counted[reason]]

    def proposals(self) -> int:
        """Return how many proposals there were."""
        return int(self.cluster.rm.treadle()["Proposals"] - self.before["Proposals"])


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[FaultyCluster]:
    """A cluster with limits, started."""
    with limited_cluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.slow
def test_hostile_proposals_break_no_limit(limited: FaultyCluster) -> None:
    """Each reason that the RM of an enforcing engine can have is met, one other in `observe_only`.

    In `enforce` no node is reserved for longer than it takes to release it, so that a proposal on a reserved one is
    judged in `observe_only` here; with a MockRM, `HostileProposalsTest` has it turned down at the commit.
    """
    rm = limited.process("rm").pid
    with Masters(limited) as masters:
        job = sleep_job(limited, "hostile", maps=6, map_ms=2500)
        leaver = masters.start("frank", "default")
        siege = Siege(limited, crowd(limited, masters))
        limited.show_fault(Fault.HOSTILE)
        leaver.end()
        siege.until(f"{PROPOSALS} hostile proposals", lambda: siege.proposals() >= PROPOSALS)
        siege.until(f"proposals turned down for each of {AT_ONCE}", lambda: not siege.missing(AT_ONCE), 60)
        siege.until("node that is full in licences alone", lambda: bool(without_licences(limited)), 60)
        lose_what_was_decided_on(siege, masters)
        limited.heal()
        wait_adds_up(limited)
        for master in siege.masters:
            master.end()
        assert job.wait() == "SUCCEEDED"
        wait_settled(limited)

        propose_on_a_reserved_node(siege, masters)
    wait_settled(limited)
    wait_idle(limited)
    assert siege.broken == set()
    assert limited.process("rm").pid == rm
    limited.wait_for("fate of every proposal", lambda: unknown_fates(limited.rm.treadle()) == 0)
    assert siege.counted()["InternalError"] == 0
    assert sum(siege.counted().values()) == limited.rm.treadle()["Rejected"] - siege.before["Rejected"]
    # a master, its maps and a reduce, each tried twice at most
    assert job.containers() <= 2 * (1 + 6 + 1)


def crowd(cluster: FaultyCluster, masters: Masters) -> list[Master]:
    """Applications that meet every limit of the cluster."""
    queue_maximum = masters.start("ann", "narrow")
    queue_maximum.ask(1, 20, 512)
    inactive = masters.start("ben", "narrow")
    inactive.ask(1, 1, 128)
    user_limit = masters.start("bob", "users")
    user_limit.ask(1, 20, CONTAINER_MB)
    choosy = masters.start("carol", "default")
    choosy.blacklist(cluster.layout.node_id(1))
    choosy.ask(1, 2, 256)
    tied = masters.start("dave", "default")
    tied.ask(1, 2, 256, node=cluster.layout.node_id(1))
    tied.ask(2, 2, 256, label=GPU)
    licensed = masters.start("erin", "wide")
    licensed.ask(1, 20, 128, more={LICENCE: 1})
    licensed.ask(2, 1, 128)
    return [queue_maximum, inactive, user_limit, choosy, tied, licensed]


def lose_what_was_decided_on(siege: Siege, masters: Masters) -> None:
    """Let attempts fail and a node be lost while answers are on their way."""
    cluster = siege.cluster
    masters.start_failing("fay", "default", attempts=6)
    cluster.process("nm3").send_signal(signal.SIGSTOP)
    try:
        cluster.show_fault(Fault.LATE)
        siege.until(f"late proposals turned down for each of {IN_TIME}", lambda: not siege.missing(IN_TIME), 90)
    finally:
        cluster.process("nm3").send_signal(signal.SIGCONT)


def propose_on_a_reserved_node(siege: Siege, masters: Masters) -> None:
    """Let the stock scheduler reserve a node, in `observe_only`; leaves a healthy engine that enforces."""
    cluster = siege.cluster
    site = cluster.layout.conf / "yarn-site.xml"
    before = site.read_text()
    large = masters.start("gina", "wide")
    try:
        change(site, {MODE: "observe_only"})
        cluster.admin("-refreshQueues")
        # one on each of two nodes, then one for which there is room enough, but on neither of them
        large.ask(1, 2, 3000)
        large.ask(2, 1, 1500)
        large.beat()
        cluster.show_fault(Fault.HOSTILE)
        cluster.wait_for("proposals on a reserved node", lambda: not siege.missing(("NodeReserved",)), 60)
    finally:
        cluster.heal()
        site.write_text(before)
        cluster.admin("-refreshQueues")
    large.end()


def unknown_fates(metrics: dict[str, Any]) -> int:
    """Proposals whose fate has not been counted."""
    return int(metrics["Proposals"] - metrics["Committed"] - metrics["Rejected"] - metrics["Observed"])

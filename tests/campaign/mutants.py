"""Part mutants: for the oracles of the other parts a planted defect each, which they must find.

Defects are planted in test code and by a Java agent, never in production code. An oracle that finds none proves
nothing:
a defect that is not found is a finding.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.campaign.clusters import check, folder
from tests.campaign.fuzz import fuzz
from tests.campaign.ledger import ROOT
from tests.campaign.slices import Slice
from tests.campaign.soak import judge
from tests.campaign.stock import MODULE, REVIEWED, is_listed, listed, run_tests
from tests.support.accounts import wait_settled
from tests.support.clusters import FaultyCluster, faulty_cluster
from tests.support.jobs import sleep_job

from treadle.minicluster.cluster import RM
from treadle.minicluster.errors import ClusterError
from treadle.minicluster.processes import JavaProgram

AGENT = MODULE / "target" / "agent-agent.jar"
BYTE_BUDDY = Path.home() / ".m2/repository/net/bytebuddy/byte-buddy/1.14.19/byte-buddy-1.14.19.jar"
PLANTED_IN_RM = {
    "LEAKED_CONTAINER": "books that add up",
    "LOST_FATE": "fate of every proposal",
    "ESCAPE": "escaped",
}
"""Mutants of a running RM, and what the finding says."""

FUZZ_S = 40.0


class MutantCluster(FaultyCluster):
    """A mini cluster with defects planted in its RM."""

    def _launch(self, program: JavaProgram, cwd: Path) -> None:
        if program.name == RM:
            agent = f"-javaagent:{AGENT}={'+'.join(PLANTED_IN_RM)}"
            classpath = (*program.classpath, str(BYTE_BUDDY))
            program = replace(program, options=(*program.options, agent), classpath=classpath)
        super()._launch(program, cwd)


def _verdict(work: Slice, name: str, found: bool) -> None:
    work.add("planted")
    work.add("found", int(found))
    work.say(f"{work.elapsed_s:5.0f} s  {name}: {'found' if found else 'NOT FOUND'}")
    if not found:
        work.find(f"nobody found the planted defect {name}")


def of_hostile(work: Slice) -> None:
    """The siege, with a limit that nobody checks, a leak, a lost fate, and others."""
    report = ROOT / "java-shim/shim/target/surefire-reports/TEST-io.treadle.shim.commit.HostileMutantsTest.xml"
    report.unlink(missing_ok=True)
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(ROOT / "java-shim" / "pom.xml"), "-pl", "shim", "-am", "test"]
    command += ["-Dtest=HostileMutantsTest", "-Dsurefire.failIfNoSpecifiedTests=false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if not report.is_file():
        raise RuntimeError(f"mvn ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        failed = case.find("failure") is not None or case.find("error") is not None
        _verdict(work, f"hostile {case.attrib['name']}", not failed)


def of_fuzz(work: Slice) -> None:
    """A wrong kind of error, an endless loop, a leak; a wrong exception in Java."""
    planted = (("frame", "raises_wrongly", 0), ("answer", "hangs", 0), ("plan", "grows", 300), ("reply", "planted", 0))
    for target, mutant, memory_mb in planted:
        _verdict(work, f"fuzz {target} {mutant}", bool(fuzz(target, FUZZ_S, mutant, memory_mb)))


def of_soak(work: Slice) -> None:
    """Made-up series: one that keeps 1 KB of each application, one that only jitters."""
    numbers = random.Random(work.seed)
    applications = [float(100 * step) for step in range(100)]
    jitter = [200 + numbers.uniform(-5, 5) for _ in applications]
    leak = [value + each * 1024 / 2**20 * 10 for value, each in zip(jitter, applications, strict=True)]
    for name, values, grows in (("leak", leak, True), ("jitter", jitter, False)):
        looked = Slice("soak", work.seed, 1, say=lambda _: None)
        judge({"applications": applications, name: values}, looked)
        _verdict(work, f"soak {name}", bool(looked.findings) is grows)


def of_stock(work: Slice) -> None:
    """Hadoop's tests, with a node that keeps what a container had."""
    ran = run_tests("TestContainerAllocation", True, agent=f"-javaagent:{AGENT}=LEAKED_CONTAINER")
    reviewed = listed(REVIEWED)
    _verdict(work, "stock LEAKED_CONTAINER", any(each.failed and not is_listed(each.name, reviewed) for each in ran))


def of_clusters(work: Slice) -> None:
    """A mini cluster with three defects in its RM: what parts kills and failover look at finds each of them."""
    looked = Slice("kills", work.seed, 10, say=work.say)
    place = folder(work.part, work.seed)
    with MutantCluster(faulty_cluster(place).settings, place / "cluster") as cluster:
        assert sleep_job(cluster, "mutant", maps=12, map_ms=200).wait() == "SUCCEEDED"
        try:
            wait_settled(cluster)
        except ClusterError as error:
            looked.find(str(error))
        check(cluster, looked)
    texts = [str(each["what"]) for each in looked.findings]
    for name, words in PLANTED_IN_RM.items():
        _verdict(work, f"kills {name}", any(words in text for text in texts))


KINDS: dict[str, Callable[[Slice], Any]] = {
    each.__name__.removeprefix("of_"): each for each in (of_hostile, of_fuzz, of_soak, of_stock, of_clusters)
}


def run(work: Slice) -> None:
    """Plant them all, whatever the length of the slice."""
    # what was found of an older state of the code counts no more
    for name, look in KINDS.items():
        if (work.options.get("only") or "") in name:
            look(work)

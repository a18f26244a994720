"""Part mutants: for the oracles of the other parts a planted defect each, which they must find.

Defects are planted in test code and by a Java agent, never in production code. An oracle that finds none proves
nothing:
a defect that is not found is a finding.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any
from xml.etree import ElementTree

from tests.campaign.clusters import Jobs, check, check_idle, folder, lease_back, lease_lost, one_sidecar
from tests.campaign.fuzz import fuzz
from tests.campaign.kills import FAULTS, Hurt
from tests.campaign.ledger import ROOT
from tests.campaign.slices import Slice
from tests.campaign.soak import Planted, stream
from tests.campaign.stock import MODULE, REVIEWED, is_listed, listed, run_tests
from tests.support.accounts import wait_settled
from tests.support.clusters import FaultyCluster, faulty_cluster
from tests.support.faulty_sidecar import Fault
from tests.support.files import written
from tests.support.jobs import sleep_job

from treadle_lab.minicluster.cluster import RM
from treadle_lab.minicluster.processes import MARK, JavaProgram
from treadle_lab.minicluster.settings import ClusterError

AGENT = MODULE / "target" / "agent-agent.jar"
BYTE_BUDDY = Path.home() / ".m2/repository/net/bytebuddy/byte-buddy/1.14.19/byte-buddy-1.14.19.jar"
PLANTED_IN_RM = {
    "LEAKED_CONTAINER": "usage that adds up",
    "LOST_FATE": "fate of every proposal",
    "ESCAPE": "escaped",
}
"""Mutants of a running RM, and what the finding says."""

FUZZ_S = 40.0

SOAK_APPLICATIONS = 600
"""Enough for a dozen looks at 8 applications a second."""

LEAKING_SIDECAR = """\
from treadle.engine import Engine

kept = []
apply = Engine.apply


def leaking(self, events):
    kept.append(bytearray(b"x") * 100_000)
    return apply(self, events)


Engine.apply = leaking
from treadle.cli.main import main

main()
"""


class MutantCluster(FaultyCluster):
    """A mini cluster with defects planted in its RM."""

    def _launch(self, program: JavaProgram, cwd: Path) -> None:
        if program.name == RM:
            agent = f"-javaagent:{AGENT}={'+'.join(PLANTED_IN_RM)}"
            classpath = (*program.classpath, str(BYTE_BUDDY))
            program = replace(program, options=(*program.options, agent), classpath=classpath)
        super()._launch(program, cwd)


def _verdict(work: Slice, name: str, found: bool) -> None:
    known = work.state.setdefault("found", {})
    # however often one is planted, it counts once
    work.add("planted", int(name not in known))
    work.add("found", int(found and not known.get(name)))
    known[name] = found
    work.say(f"{work.elapsed_s:5.0f} s  {name}: {'found' if found else 'NOT FOUND'}")
    if not found:
        work.find(f"nobody found the planted defect {name}")


def run_mvn(*arguments: str, made: Path = AGENT) -> None:
    """Run Maven on the Java modules.

    Raises:
        RuntimeError: what it was to make is not there; its last lines are in the message.
    """
    made.unlink(missing_ok=True)
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(ROOT / "java-shim" / "pom.xml"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if not made.is_file():
        raise RuntimeError(f"mvn ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")


def of_hostile(work: Slice) -> None:
    """The siege, with a limit that nobody checks, a leak, a lost fate, and others."""
    report = ROOT / "java-shim/shim/target/surefire-reports/TEST-io.treadle.shim.commit.HostileMutantsTest.xml"
    only = ("-Dtest=HostileMutantsTest", "-Dsurefire.failIfNoSpecifiedTests=false")
    run_mvn("-pl", "shim", "-am", "test", *only, made=report)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        failed = case.find("failure") is not None or case.find("error") is not None
        _verdict(work, f"hostile {case.attrib['name']}", not failed)


def of_fuzz(work: Slice) -> None:
    """A wrong kind of error, an endless loop, a leak; a wrong exception in Java."""
    planted = (("frame", "raises_wrongly", 0), ("answer", "hangs", 0), ("plan", "grows", 300), ("reply", "planted", 0))
    for target, mutant, memory_mb in planted:
        _verdict(work, f"fuzz {target} {mutant}", bool(fuzz(target, FUZZ_S, mutant, memory_mb)))


def of_soak(work: Slice) -> None:
    """Two streams of applications: an RM that keeps 50 KB a container, and a sidecar that keeps 100 KB a frame."""
    agent = Planted((f"-javaagent:{agent_jar()}=LEAKED_MEMORY",), (BYTE_BUDDY,))
    leaking = written(folder(work.part, work.seed) / "treadle-that-leaks", f"#!{sys.executable}\n{LEAKING_SIDECAR}")
    leaking.chmod(0o755)
    for series, planted in (("rm_heap_mb", agent), ("sidecar_mb", Planted(sidecar=leaking))):
        looked = Slice("soak", work.seed, 10, say=work.say)
        stream(looked, SOAK_APPLICATIONS, planted)
        grown = [str(each["what"]) for each in looked.findings]
        _verdict(work, f"soak {series}", any(each.startswith(f"{series} grows") for each in grown))


def of_stock(work: Slice) -> None:
    """Hadoop's tests of containers that end or shrink, with nodes that keep what those had."""
    ran = run_tests("TestIncreaseAllocationExpirer", True, agent=f"-javaagent:{AGENT}=LEAKED_CONTAINERS")
    reviewed = listed(REVIEWED)
    wrong = [each.name for each in ran if each.failed and not is_listed(each.name, reviewed)]
    _verdict(work, "stock LEAKED_CONTAINERS", bool(wrong))


def agent_jar() -> Path:
    """Build the Java agent that plants defects in an RM and return it.

    Raises:
        RuntimeError: Maven failed.
    """
    run_mvn("-pl", "shim,stock-tests", "-am", "process-classes")
    return AGENT


def of_clusters(work: Slice) -> None:
    """A mini cluster with three defects in its RM: what parts kills and failover look at finds each of them."""
    looked = _look(work)
    agent_jar()
    place = folder(work.part, work.seed)
    with MutantCluster(faulty_cluster(place).settings, place / "cluster") as cluster:
        assert sleep_job(cluster, "mutant", maps=12, map_ms=200).wait() == "SUCCEEDED"
        try:
            wait_settled(cluster)
        except ClusterError as error:
            looked.find(str(error))
        check(cluster, looked)
        for name, words in PLANTED_IN_RM.items():
            _verdict(work, f"kills {name}", _found(looked, words))
        looked = _look(work)
        check_idle(cluster, looked)
        _verdict(work, "kills LEAKED_CONTAINER in the idle cluster", _found(looked, "cluster that uses nothing"))


def of_kills(work: Slice) -> None:
    """What only parts kills and failover look at: jobs, sidecars, the lease, refreshes."""
    place = folder("kills-mutants", work.seed)
    with faulty_cluster(place) as cluster:
        looked = _look(work)
        jobs = Jobs(cluster, random.Random(work.seed), looked, only=("MapReduce",))
        planted = {"mapreduce.map.java.opts": "-XX:+NoSuchOption", "mapreduce.map.maxattempts": "1"}
        jobs.running.append(sleep_job(cluster, "fails", maps=1, settings=planted))
        jobs.finish()
        _verdict(work, "kills a job that fails", _found(looked, "ended as FAILED"))

        looked = _look(work)
        env = {**os.environ, MARK: str(cluster.folder)}
        with subprocess.Popen(
            [sys.executable, "-c", "input()", "sidecar", "run", "--managed"], env=env, stdin=PIPE
        ) as second:
            one_sidecar(cluster, looked, [second.pid], timeout_s=5)
            second.kill()
        _verdict(work, "kills a second sidecar", _found(looked, "there are"))
        _verdict(work, "kills a sidecar that outlives its end", _found(looked, "outlived"))

        looked = _look(work)
        cluster.show_fault(Fault.GARBAGE)
        lease_lost(cluster)
        lease_back(cluster, looked, time.monotonic(), timeout_s=5)
        cluster.heal()
        _verdict(work, "kills a lease that does not come back", _found(looked, "no lease within"))

        looked = _look(work)
        Hurt(cluster, looked).refresh_wrongly("observe_only")
        _verdict(work, "kills a wrong value that is taken", _found(looked, "took the mode"))
        _verdict(work, "kills a refresh that changes the mode", _found(looked, "changed the mode"))


def _look(work: Slice) -> Slice:
    options = {"frameworks": ["MapReduce"], "faults": list(FAULTS)}
    return Slice("kills", work.seed, 10, options=options, say=work.say)


def _found(looked: Slice, words: str) -> bool:
    return any(words in str(each["what"]) for each in looked.findings)


KINDS: dict[str, Callable[[Slice], Any]] = {
    each.__name__.removeprefix("of_"): each for each in (of_hostile, of_fuzz, of_soak, of_stock, of_clusters, of_kills)
}


def run(work: Slice) -> None:
    """Plant them all, whatever the length of the slice."""
    for name, look in KINDS.items():
        if (work.options.get("only") or "") in name:
            look(work)

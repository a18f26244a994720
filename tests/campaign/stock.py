"""Part stock: Hadoop's own tests of its CapacityScheduler on our scheduler, which enforces beside a stub of an engine.

The stub (`java-shim/stock-tests`, `StubbedScheduler`) proposes after each heartbeat what the stock scheduler would
place, and waits until the shim has committed it. A test that fails is run on the stock scheduler too: if it passes
there and is not in the reviewed list `java-shim/stock-tests/enforcing.txt`, it is a finding. So is a list with more
than a tenth of the tests, and a container that was placed without the engine where nothing explains it. A test of the
list that passes is counted. A slice goes on with the classes that no slice has run yet; once all have been run, the
next begins anew.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.campaign.ledger import ROOT
from tests.campaign.slices import Slice

MODULE = ROOT / "java-shim" / "stock-tests"
REVIEWED = MODULE / "enforcing.txt"
EXCLUDED = MODULE / "excluded.txt"
PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity"
STUBBED = f"{PACKAGE}.StubbedScheduler"
REVIEWED_SHARE_MAX = 0.10
REVIEWED_VERDICT = "reviewed"
ClassResult = dict[str, Any]
"""The results of a class: its `tests`, the outcomes of those that `failed`, and the `turn` over all classes."""

BATCH = 4
"""Classes of one run of Maven."""

HADOOP = "3.4.2"
JAR = Path.home() / (
    f".m2/repository/org/apache/hadoop/hadoop-yarn-server-resourcemanager/{HADOOP}/"
    f"hadoop-yarn-server-resourcemanager-{HADOOP}-tests.jar"
)


@dataclass(frozen=True)
class Ran:
    """A test that ran: `Class#method` and whether it failed."""

    name: str
    failed: bool


NATIVE = "native "
"""Begins a line of the tally that says how many containers were placed without the engine, and why."""

NATIVE_KINDS = {
    "refused": "where_enforce_is_refused",
    "by a test": "by_the_test_itself",
    "by the placement processor": "by_the_placement_processor",
}
"""Reasons that are none of a defect, and what they are counted as."""

NO_TESTS = ("TestUtils", "TestCapacitySchedulerAutoCreatedQueueBase", "TestCapacitySchedulerPerf")
"""Named like tests, but only help others, or run only where a property asks for performance tests."""


def all_classes(jar: Path = JAR) -> list[str]:
    """Return the names of Hadoop's test classes in the scheduler's package and those below, without the package."""
    pattern = re.compile(re.escape(PACKAGE.replace(".", "/")) + r"/(?:\w+/)*(Test\w+)\.class")
    with zipfile.ZipFile(jar) as content:
        found = (pattern.fullmatch(name) for name in content.namelist())
        return sorted(match[1] for match in found if match)


def listed(file: Path) -> dict[str, str]:
    """Return the tests of a list, as `Class#method` with `*` for anything, and the reason above each."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in file.read_text().splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line.strip():
            reasons[line.strip().removeprefix("**/").replace(".java", "")] = reason
    return reasons


def is_listed(name: str, names: dict[str, str]) -> bool:
    """Is a test, or its whole class, in a list?"""
    return any(
        re.fullmatch(re.escape(each).replace(r"\*", ".*") + ("" if "#" in each else "#.*"), name) for each in names
    )


def run_tests(selection: str, stubbed: bool, tally: Path | None = None, agent: str | None = None) -> list[Ran]:
    """Run tests with our scheduler beside the stub, or on the stock one.

    Raises:
        RuntimeError: Maven failed; its last lines are in the message.
    """
    reports = MODULE / "target" / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    own = [f"-Dstock.scheduler={STUBBED}", f"-Dstock.tally={tally or ''}"] if stubbed else []
    agent = agent if stubbed else ""
    own += [] if agent is None else [f"-Dstock.agent={agent}"]
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(ROOT / "java-shim" / "pom.xml")]
    command += ["-pl", "shim,stock-tests", "-am", "test", f"-Dtest={selection}", "-Dmaven.test.failure.ignore=true"]
    done = subprocess.run(
        [*command, "-Dsurefire.failIfNoSpecifiedTests=false", *own], capture_output=True, text=True, timeout=3600
    )
    ran = [ran for file in sorted(reports.glob("TEST-*.xml")) for ran in _read(file)]
    if done.returncode != 0 or not ran:
        raise RuntimeError(f"mvn ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return ran


def _read(report: Path) -> list[Ran]:
    return [
        Ran(
            f"{case.attrib['classname'].rpartition('.')[2]}#{case.attrib['name']}",
            any(each.tag in ("failure", "error") for each in case),
        )
        for case in ElementTree.parse(report).getroot().iter("testcase")
        if case.find("skipped") is None
    ]


def failing_on_stock(names: list[str]) -> set[str]:
    """Return those of some tests that fail on the stock scheduler too."""
    by_class: dict[str, list[str]] = {}
    for name in names:
        owner, _, method = name.partition("#")
        by_class.setdefault(owner, []).append(method.partition("[")[0])
    selection = ",".join(f"{owner}#{'+'.join(sorted(set(methods)))}*" for owner, methods in by_class.items())
    return {ran.name for ran in run_tests(selection, stubbed=False) if ran.failed}


def tallied(lines: list[str], work: Slice) -> None:
    """Count what the schedulers of a run placed, what was placed without the engine and why, and what escaped."""
    natives = [line.removeprefix(NATIVE).split(" ", 1) for line in lines if line.startswith(NATIVE)]
    for number, reason in natives:
        kind = reason.partition(":")[0]
        work.add(f"placed_by_capacity_scheduler_{NATIVE_KINDS.get(kind, 'unexplained')}", int(number))
        if kind not in NATIVE_KINDS:
            work.find(f"{number} containers were placed without the engine, {reason}")
    schedulers = [[int(number) for number in line.split()] for line in lines if not line.startswith(NATIVE)]
    names = ("proposals", "committed", "rejected", "placed_by_capacity_scheduler", "escapes")
    for name, values in zip(names, zip(*schedulers, strict=True), strict=False):
        work.add(name, sum(values))
        if name == "escapes" and sum(values):
            work.find(f"{sum(values)} throwables escaped into overrides")
    work.add("schedulers", len(schedulers))


def run(work: Slice) -> None:
    """Run classes until the slice is over or all have been run."""
    known: dict[str, ClassResult] = dict(work.state.get("classes", {}))
    turn = int(work.state.get("turn", 1))
    excluded = listed(EXCLUDED)
    wanted = [
        name
        for name in all_classes()
        if (work.options.get("only") or "") in name and name not in excluded and name not in NO_TESTS
    ]
    if all(name in known and known[name]["turn"] == turn for name in wanted):
        turn += 1
    waiting = [name for name in wanted if name not in known or known[name]["turn"] < turn]
    for at in range(0, len(waiting), BATCH):
        if work.left_s == 0:
            break
        batch = waiting[at : at + BATCH]
        try:
            results = _batch(batch, work, excluded)
        except RuntimeError as error:
            work.find(f"{', '.join(batch)}: {error}")
            continue
        for owner, result in results.items():
            # what is wanted are classes, however often each was run
            work.add("classes", int(owner not in known))
            known[owner] = {"turn": turn, **result}
        work.state = {"turn": turn, "classes": known}
        work.say(f"{work.elapsed_s:5.0f} s  {', '.join(batch)}: {dict(work.counts)}")
    if not work.options.get("only") and all(name in known for name in wanted):
        judge_list(known, work)


def _batch(batch: list[str], work: Slice, excluded: dict[str, str]) -> dict[str, ClassResult]:
    """Run some classes; return the results of each."""
    tally = ROOT / "build" / "campaign" / "stock-tally"
    tally.parent.mkdir(parents=True, exist_ok=True)
    tally.unlink(missing_ok=True)
    ran = [each for each in run_tests(",".join(batch), True, tally) if not is_listed(each.name, excluded)]
    tallied(tally.read_text().splitlines() if tally.is_file() else [], work)
    failed = [each.name for each in ran if each.failed]
    on_stock = failing_on_stock(failed) if failed else set()
    reviewed = listed(REVIEWED)
    for each in ran:
        if each.failed and each.name not in on_stock and not is_listed(each.name, reviewed):
            work.find(f"{each.name} fails with us enforcing and passes on the stock scheduler")
        if not each.failed and is_listed(each.name, reviewed):
            work.say(f"{each.name} passes this time: is it rightly in java-shim/stock-tests/enforcing.txt?")
            work.add("passed_though_reviewed")
    work.add("tests", len(ran))
    work.add("passed", len(ran) - len(failed))
    work.add("failed_as_reviewed", sum(is_listed(name, reviewed) and name not in on_stock for name in failed))
    work.add("failed_on_stock_too", len(on_stock))
    results: dict[str, ClassResult] = {}
    for owner in batch:
        own = [each for each in ran if each.name.startswith(f"{owner}#")]
        if not own:
            work.find(f"no test of {owner} ran")
            continue
        failures = {each.name.partition("#")[2]: _verdict(each, on_stock, reviewed) for each in own if each.failed}
        results[owner] = {"tests": len(own), "failed": failures}
    return results


def judge_list(known: dict[str, ClassResult], work: Slice) -> None:
    """Find fault with a reviewed list that has grown too long for the tests that were run."""
    tests = sum(result["tests"] for result in known.values())
    reviewed = sum(list(result["failed"].values()).count(REVIEWED_VERDICT) for result in known.values())
    if reviewed > REVIEWED_SHARE_MAX * tests:
        work.find(f"{reviewed} of {tests} tests are in the reviewed list: at most {REVIEWED_SHARE_MAX:.0%} may be")


def _verdict(ran: Ran, on_stock: set[str], reviewed: dict[str, str]) -> str:
    if ran.name in on_stock:
        return "fails on the stock scheduler too"
    return REVIEWED_VERDICT if is_listed(ran.name, reviewed) else "not reviewed"

"""Part stock: Hadoop's own tests of its CapacityScheduler on our scheduler, which enforces beside a stub of an engine.

The stub (`java-shim/stock-tests`, `StubbedScheduler`) proposes after each heartbeat what the stock scheduler would
place, and waits until the shim has committed it. A test that fails is run on the stock scheduler too: if it passes
there and is not in the reviewed list `java-shim/stock-tests/enforcing.txt`, it is a finding. A slice goes on with the
classes that no slice has run yet; once all have been run, the next begins anew.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.campaign.ledger import ROOT
from tests.campaign.slices import Slice

MODULE = ROOT / "java-shim" / "stock-tests"
REVIEWED = MODULE / "enforcing.txt"
EXCLUDED = MODULE / "excluded.txt"
PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity"
STUBBED = f"{PACKAGE}.StubbedScheduler"
REVIEWED_SHARE_MAX = 0.10
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
    timed_out: bool = False
    """Did JUnit give it up? The first test of a JVM pays for what is loaded and checked once."""


def all_classes(jar: Path = JAR) -> list[str]:
    """Return the names of Hadoop's test classes in the scheduler's package, without the package."""
    pattern = re.compile(re.escape(PACKAGE.replace(".", "/")) + r"/(Test\w+)\.class")
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
        RuntimeError: Maven came to nothing; its last lines are in the message.
    """
    reports = MODULE / "target" / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    own = [f"-Dstock.scheduler={STUBBED}", f"-Dstock.tally={tally or ''}"] if stubbed else []
    agent = agent if stubbed else ""
    own += [] if agent is None else [f"-Dstock.agent={agent}"]
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(ROOT / "java-shim" / "pom.xml"), "-Pstock-tests"]
    command += ["-pl", "shim,stock-tests", "-am", "test", f"-Dtest={selection}", "-Dmaven.test.failure.ignore=true"]
    done = subprocess.run(
        [*command, "-Dsurefire.failIfNoSpecifiedTests=false", *own], capture_output=True, text=True, timeout=3600
    )
    ran = [ran for file in sorted(reports.glob("TEST-*.xml")) for ran in _read(file)]
    if done.returncode != 0 or not ran:
        raise RuntimeError(f"mvn ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return ran


def _read(report: Path) -> list[Ran]:
    cases = ElementTree.parse(report).getroot().iter("testcase")
    found = []
    for case in cases:
        wrong = next((each for each in case if each.tag in ("failure", "error")), None)
        if case.find("skipped") is None:
            name = f"{case.attrib['classname'].rpartition('.')[2]}#{case.attrib['name']}"
            kind = "" if wrong is None else wrong.attrib.get("type", "")
            found.append(Ran(name, wrong is not None, "TimedOut" in kind))
    return found


def failing_again(names: list[str], stubbed: bool) -> set[str]:
    """Return those of some tests that fail once more, with us enforcing or on the stock scheduler."""
    by_class: dict[str, list[str]] = {}
    for name in names:
        owner, _, method = name.partition("#")
        by_class.setdefault(owner, []).append(method.partition("[")[0])
    selection = ",".join(f"{owner}#{'+'.join(sorted(set(methods)))}*" for owner, methods in by_class.items())
    return {ran.name for ran in run_tests(selection, stubbed) if ran.failed}


def _tallied(tally: Path, work: Slice) -> None:
    """Count what the schedulers of a run placed, and what escaped."""
    lines = (
        [[int(number) for number in line.split()] for line in tally.read_text().splitlines()] if tally.is_file() else []
    )
    names = ("proposals", "committed", "rejected", "placed_natively", "escapes")
    for name, values in zip(names, zip(*lines, strict=True), strict=False):
        work.add(name, sum(values))
        if name == "escapes" and sum(values):
            work.find(f"{sum(values)} throwables escaped into overrides")
    work.add("schedulers", len(lines))


def run(work: Slice) -> None:
    """Run classes until the slice is over or all have been run."""
    results: dict[str, dict[str, str]] = dict(work.state.get("results", {}))
    wanted = [name for name in all_classes() if (work.options.get("only") or "") in name]
    if all(name in results for name in wanted):
        results = {}
    excluded, reviewed = listed(EXCLUDED), listed(REVIEWED)
    tally = ROOT / "build" / "campaign" / "stock-tally"
    tally.parent.mkdir(parents=True, exist_ok=True)
    waiting = [name for name in wanted if name not in results and f"{name}" not in excluded]
    for at in range(0, len(waiting), BATCH):
        if work.left_s == 0:
            break
        batch = waiting[at : at + BATCH]
        tally.unlink(missing_ok=True)
        ran = [each for each in run_tests(",".join(batch), True, tally) if not is_listed(each.name, excluded)]
        _tallied(tally, work)
        late = [each.name for each in ran if each.timed_out]
        if late:
            again = failing_again(late, stubbed=True)
            work.add("repeated_after_time_out", len(late))
            ran = [each if each.name not in late else Ran(each.name, each.name in again) for each in ran]
        failed = [each.name for each in ran if each.failed]
        on_stock = failing_again(failed, stubbed=False) if failed else set()
        for name in failed:
            if name not in on_stock and not is_listed(name, reviewed):
                work.find(f"{name} fails with us enforcing and passes on the stock scheduler")
        for owner in batch:
            own = [each for each in ran if each.name.startswith(f"{owner}#")]
            results[owner] = {
                each.name.partition("#")[2]: _verdict(each, on_stock, reviewed) for each in own if each.failed
            }
            work.add("classes")
            work.add("tests", len(own))
            work.add("passed", sum(not each.failed for each in own))
        work.add("failed_as_reviewed", sum(is_listed(name, reviewed) for name in failed))
        work.add("failed_on_stock_too", len(on_stock))
        work.state["results"] = results
        work.say(f"{work.elapsed_s:5.0f} s  {', '.join(batch)}: {dict(work.counts)}")


def _verdict(ran: Ran, on_stock: set[str], reviewed: dict[str, str]) -> str:
    if ran.name in on_stock:
        return "fails on the stock scheduler too"
    return "reviewed" if is_listed(ran.name, reviewed) else "not reviewed"

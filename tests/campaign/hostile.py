"""Part hostile: generated proposals, most of them wrong, against a real ResourceManager in one JVM, in bulk.

The oracles, after every answer (`HostileSiege` of the shim's tests): usage is the sum of the containers; no node,
queue, parent or user has more than its limit; nobody who is not active, no blacklisted node, no wrong partition and no
node but the one asked for strictly got a container; every proposal has exactly one fate, and none is INTERNAL_ERROR.
"""

from __future__ import annotations

import subprocess

from tests.campaign.ledger import ROOT
from tests.campaign.slices import Slice

START_S = 60.0
"""What Maven and the JVM take of a slice."""


def run(work: Slice) -> None:
    """Besiege ResourceManagers of the slice's own, a new one every 500 answers of 4,000 proposals."""
    file = ROOT / "build" / "campaign" / f"hostile-{work.seed}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(ROOT / "java-shim" / "pom.xml"), "-pl", "shim", "-am", "test"]
    command += ["-Dtest=HostileCampaign", "-Dsurefire.failIfNoSpecifiedTests=false", f"-Dtreadle.campaign.file={file}"]
    command += [
        f"-Dtreadle.campaign.seed={work.seed}",
        f"-Dtreadle.campaign.seconds={max(10, work.left_s - START_S):.0f}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 * work.minutes + 1200)
    if not file.is_file():
        work.find(f"mvn ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
        return
    told = dict(line.partition("=")[::2] for line in file.read_text().splitlines() if "=" in line)
    work.add("proposals", int(told["proposals"]))
    work.sample("kinds_of_fates_seen", int(told["fates"]))
    if told["found"]:
        work.find(told["found"])

"""Tests of the shim with several engines, in one JVM with a real ResourceManager, in bulk: 10,000 gangs and so on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

TIMEOUT_S = 3600


@pytest.mark.parametrize(
    ("test", "how_many"),
    [
        ("GangsInRmTest#noGangIsCommittedInPart", "-Dtreadle.gangs=10000"),
    ],
)
def test_in_bulk(test: str, how_many: str) -> None:
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(ROOT / "java-shim" / "pom.xml"), "-pl", "shim", "-am", "test"]
    command += [f"-Dtest={test}", "-Dsurefire.failIfNoSpecifiedTests=false", how_many]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]

"""Where a JVM's threads spend their CPU time, by the samples of Java's flight recorder: tables, and stacks to draw."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from treadle_lab.sls.load import BenchError

DEPTH: Final = 64
"""Frames of a stack that are recorded; deeper ones lack their outermost frames."""
LEAST_SHARE: Final = 0.01
"""Methods with less of a thread's samples are left out of its table."""
_SAMPLE: Final = "jdk.ExecutionSample"


@dataclass(frozen=True)
class ThreadProfile:
    """The samples of one thread, or of all threads whose names differ in numbers only."""

    thread: str
    samples: int
    within: Mapping[str, float]
    """By method, the share of samples in which it, or something that it called, ran; the largest first."""
    alone: Mapping[str, float]
    """By method, the share of samples in which it ran itself."""
    stacks: Mapping[str, int]
    """Samples by stack, outermost method first, joined by semicolons: what tools that draw flame graphs read."""

    def as_json(self) -> dict[str, Any]:
        """Return the table, without stacks and without methods of less than `LEAST_SHARE`."""
        return {
            "thread": self.thread,
            "samples": self.samples,
            "within": {name: round(share, 4) for name, share in self.within.items() if share >= LEAST_SHARE},
            "alone": {name: round(share, 4) for name, share in self.alone.items() if share >= LEAST_SHARE},
        }

    def folded(self) -> str:
        """Return the stacks, one a line, with their numbers of samples."""
        return "".join(f"{stack} {count}\n" for stack, count in sorted(self.stacks.items()))


def recording_options(file: Path) -> tuple[str, ...]:
    """Return what makes a JVM record its threads' stacks and write them to a file when it ends."""
    return (
        f"-XX:FlightRecorderOptions=stackdepth={DEPTH}",
        f"-XX:StartFlightRecording=filename={file},settings=profile",
    )


def jfr_command(java: str) -> Path:
    """Return the `jfr` command beside ``java``; raise BenchError if there is none."""
    beside = [path.with_name("jfr") for path in (Path(java), Path(java).resolve())]
    command = next((path for path in beside if path.exists()), None)
    if command is None:
        raise BenchError(f"--profile: no jfr beside {java}; a JDK has one, a JRE does not")
    return command


def read_samples(java: str, recording: Path) -> list[dict[str, Any]]:
    """Return the samples of a recording.

    Raises:
        BenchError: there is no recording, or no command that reads it.
    """
    command = jfr_command(java)
    if not recording.exists():
        raise BenchError(f"--profile: the JVM has not written {recording}; its output is beside it")
    printed = subprocess.run(
        [command, "print", "--json", "--stack-depth", str(DEPTH), "--events", _SAMPLE, recording],
        capture_output=True,
        check=False,
    )
    if printed.returncode:
        raise BenchError(f"--profile: {command} cannot read {recording}: {printed.stderr.decode(errors='replace')}")
    events: list[dict[str, Any]] = json.loads(printed.stdout)["recording"]["events"]
    return [event["values"] for event in events]


def write_profiles(found: Sequence[ThreadProfile], window_ms: float, folder: Path, name: str) -> None:
    """Write a table of all threads, and of each the stacks to draw, to files whose names begin with ``name``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        table = {"window_ms": round(window_ms), "threads": [each.as_json() for each in found]}
        (folder / f"{name}.json").write_text(json.dumps(table, indent=1) + "\n")
        for each in found:
            thread = re.sub(r"[^\w-]+", "-", each.thread)
            (folder / f"{name}-{thread}.folded").write_text(each.folded())
    except OSError as error:
        raise BenchError(f"--profile {folder}: {error.strerror or error}; name a folder that can be written") from error


def profiles(samples: Iterable[Mapping[str, Any]], start_ms: float, end_ms: float) -> list[ThreadProfile]:
    """Return a profile of each thread, the busiest first.

    Args:
        samples: of `read_samples`
        start_ms: when the time that counts begins, milliseconds since 1970
        end_ms: when it ends
    """
    stacks: dict[str, Counter[str]] = {}
    for sample in samples:
        at_ms = 1000 * datetime.fromisoformat(_in_micros(sample["startTime"])).timestamp()
        if sample["stackTrace"] is None or not start_ms <= at_ms <= end_ms:
            continue
        thread = re.sub(r"\d+", "N", (sample["sampledThread"] or {}).get("javaName") or "not Java")
        frames = [_method(frame["method"]) for frame in sample["stackTrace"]["frames"]]
        stacks.setdefault(thread, Counter())[";".join(reversed(frames))] += 1
    found = [_profile(thread, counts) for thread, counts in stacks.items()]
    return sorted(found, key=lambda each: (-each.samples, each.thread))


def _profile(thread: str, stacks: Counter[str]) -> ThreadProfile:
    samples = stacks.total()
    within: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for stack, count in stacks.items():
        methods = stack.split(";")
        alone[methods[-1]] += count
        for method in set(methods):
            within[method] += count
    return ThreadProfile(thread, samples, _shares(within, samples), _shares(alone, samples), stacks)


def _shares(counts: Counter[str], samples: int) -> dict[str, float]:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {name: count / samples for name, count in ordered}


def _method(method: Mapping[str, Any]) -> str:
    """Return a method by its class without the package."""
    return f"{method['type']['name'].rpartition('/')[2]}.{method['name']}"


def _in_micros(time: str) -> str:
    """Return a time that `datetime` reads: it knows no nanoseconds."""
    return re.sub(r"(\.\d{1,6})\d*", r"\1", time)

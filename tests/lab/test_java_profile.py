"""Where a JVM's threads spend their time: samples in a window, by thread, as a table and as stacks."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from treadle_lab.sls.load import BenchError
from treadle_lab.sls.run import jfr_command, profiles, read_samples, write_profiles


def sample(second: int, thread: str | None, *methods: str) -> dict[str, Any]:
    """Return a sample as jfr prints it; the innermost method first, as `package/Class.method`."""
    frames = [
        {"method": {"type": {"name": name.rpartition(".")[0]}, "name": name.rpartition(".")[2]}} for name in methods
    ]
    return {
        "startTime": f"1970-01-01T00:00:{second:02d}.123456789Z",
        "sampledThread": {"javaName": thread} if thread else None,
        "stackTrace": {"truncated": False, "frames": frames},
    }


SAMPLES = [
    sample(1, "link-1", "a/Before.run"),
    sample(2, "link-1", "a/Lock.lock", "a/Link.commit", "a/Link.run"),
    sample(3, "link-2", "a/Link.commit", "a/Link.run"),
    sample(4, "link-1", "a/Frames.write", "a/Frames.write", "a/Link.run"),
    sample(5, None, "b/Native.call"),
    sample(9, "link-1", "a/After.run"),
]


def test_samples_of_the_window_by_thread() -> None:
    link, other = profiles(SAMPLES, 2_000, 8_000)
    assert (link.thread, link.samples, other.thread) == ("link-N", 3, "not Java")
    assert list(link.within.items())[:2] == [("Link.run", 1.0), ("Link.commit", 2 / 3)]
    assert link.within["Frames.write"] == 1 / 3, "a method that calls itself is there once"
    assert dict(link.alone) == {"Frames.write": 1 / 3, "Link.commit": 1 / 3, "Lock.lock": 1 / 3}
    assert link.folded().splitlines()[0] == "Link.run;Frames.write;Frames.write 1"


def test_the_files_of_a_run(tmp_path: Path) -> None:
    write_profiles(profiles(SAMPLES, 2_000, 8_000), 6_000, tmp_path / "profiles", "1-treadle")
    table = json.loads((tmp_path / "profiles" / "1-treadle.json").read_text())
    assert [each["samples"] for each in table["threads"]] == [3, 1]
    assert (tmp_path / "profiles" / "1-treadle-not-Java.folded").read_text() == "Native.call 1\n"
    with pytest.raises(BenchError, match=r"--profile .*1-treadle\.json: .*folder that can be written"):
        write_profiles([], 1, tmp_path / "profiles" / "1-treadle.json", "x")


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    java = tmp_path / "java"
    with pytest.raises(BenchError, match="no jfr beside"):
        jfr_command(str(java))
    jfr = tmp_path / "jfr"
    jfr.write_text('#!/bin/sh\necho "bad file" >&2\nexit 1\n')
    jfr.chmod(stat.S_IRWXU)
    with pytest.raises(BenchError, match=r"has not written .*none\.jfr"):
        read_samples(str(java), tmp_path / "none.jfr")
    recording = tmp_path / "some.jfr"
    recording.touch()
    with pytest.raises(BenchError, match="bad file"):
        read_samples(str(java), recording)

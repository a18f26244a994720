"""`treadle recording` and `treadle replay` on recordings of a simulated cluster, and on those in the repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.unit.record.test_live_recorder import SNAPSHOT, Caller

from treadle.cli.main import run
from treadle.record.files import segments
from treadle.replay import verify

DATA = Path(__file__).parents[2] / "data" / "recordings"
RECORDINGS = sorted(DATA.iterdir())


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_recordings_of_the_repository_are_decided_again_to_the_byte(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["replay", str(recording), "--verify", "--output=json"])
    verdict = json.loads(capsys.readouterr().out)
    meant = f"{verdict['first']}; if that was meant: python -m tests.support.make_recordings {recording.name}"
    assert verdict["decisions_different"] == 0, meant
    if not any("another engine recorded it" in note for note in verdict["notes"]):  # texts of a status may change
        assert (code, verdict["different"]) == (0, 0), meant
    assert verdict["proposals"] >= 50


def test_show_says_what_is_in_a_recording(cli: Cli) -> None:
    found = json.loads(cli(["recording", "show", str(RECORDINGS[0]), "--output=json"]).out)
    assert (found["nodes"], found["gaps"], found["dropped"]) == (6, 0, 0)
    assert len(found["queues"]) == 2
    assert found["containers"] > 20
    assert found["bytes_per_container"] > 1
    assert found["end_ms"] > found["begin_ms"] > 0
    said = cli(["recording", "show", str(RECORDINGS[0])]).out
    assert "bytes a container" in said
    assert "3 of 3 segments" in said
    assert "0, 0 frames dropped" in said


def test_show_has_another_exit_code_where_something_is_missing(tmp_path: Path, cli: Cli) -> None:
    copied = tmp_path / "rec"
    shutil.copytree(RECORDINGS[0], copied)
    file = segments(copied)[-1]
    file.write_bytes(file.read_bytes()[:-30])
    assert "it is cut off" in cli(["recording", "show", str(copied)], 1).err
    file.write_bytes(b"")
    said = cli(["replay", str(copied), "--verify"], 1)
    assert "nothing of it can be read" in said.err
    assert "not all is there" in said.out


@pytest.mark.parametrize("command", [["recording", "show"], ["replay", "--verify"]])
def test_what_is_no_recording_is_refused(command: list[str], tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "a.rec").write_bytes(b"something else")
    assert "is not a recording" in cli([*command, str(tmp_path / "a.rec")], 2).err
    assert "no segments of a recording" in cli([*command, str(tmp_path)], 2).err
    assert "is not there" in cli([*command, str(tmp_path / "none")], 2).err


def test_a_recording_whose_frames_have_another_schema_is_refused(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setattr("treadle.record.reader.schema_hash", lambda: "another")
    for command in (["recording", "show"], ["replay", "--verify"]):
        assert "have another schema" in cli([*command, str(RECORDINGS[0])], 2).err


def test_what_is_to_be_done_must_be_said(cli: Cli) -> None:
    said = {
        (): "--verify to check the recording, or --policy",
        ("--verify", "--policy", "srpt"): "--verify and --policy do not go together",
        ("--policy", ""): "--policy: it is empty",
    }
    for options, text in said.items():
        assert text in cli(["replay", str(RECORDINGS[0]), *options], 2).err


def test_a_folder_that_is_being_written_is_whole_but_for_the_last_second(tmp_path: Path, cli: Cli) -> None:
    caller = Caller(tmp_path / "rec")
    caller.tick(SNAPSHOT)
    caller.recorder.work_off()
    caller.recorder._writer.flush()
    found = json.loads(cli(["recording", "show", str(tmp_path / "rec"), "--output=json"]).out)
    assert (found["frames"], found["whole"], found["is_open"]) == (1, True, True)
    assert "it is still being written, or its writer was killed" in found["notes"][0]
    caller.recorder._stop("the test is over")
    caller.recorder.work_off()
    assert json.loads(cli(["recording", "show", str(tmp_path / "rec"), "--output=json"]).out)["notes"] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_reported_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "treadle", "recording", "show", str(RECORDINGS[0])],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "treadle: the output cannot be written: No space left on device\n"


def test_what_holds_of_all_segments_has_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "engine_hash", lambda: "another")
    notes = [note for note in verify.verify(segments(RECORDINGS[0])).notes if "another engine recorded it" in note]
    assert len(notes) == 1
    assert notes[0].startswith("all 3 segments: ")

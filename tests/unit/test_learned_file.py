"""The state of a policy outlives the sidecar, in a file that is recent, whole and this user's."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.support.optional import present
from tests.unit.test_live_policies import Conversation, described

from treadle.engine import Engine
from treadle.events import LearnedState
from treadle.live import learned_file
from treadle.live.learned_file import AGE_MAX_MS, FILE, LearnedFile
from treadle.live.policies import LivePolicies
from treadle.live.policy_memory import PolicyMemory
from treadle.live.session import Session
from treadle.policy.fair_finish import Progress
from treadle.record.files import segments
from treadle.replay.verify import verify
from treadle.wire.frames import Frame, FrameFlag, FrameHeader

POLICY = "policy: {order: {kind: fair_finish}, estimate: {kind: time_on_test}}\n"
NOW_MS = 1_000_000


class Run:
    """A sidecar's session, whose policy has decided once."""

    def __init__(self, folder: Path, now_ms: int) -> None:
        (folder / "treadle.yaml").write_text(f"{POLICY}record: {{folder: {folder}/rec}}\n")
        self.live = LivePolicies(folder / "treadle.yaml", PolicyMemory(folder / "state"))
        self.file = LearnedFile(folder / FILE)
        self.session: Session = self.live.session(self.live.start(), 1 << 20, lambda: 0, learned=self.file)
        Conversation(self.session).send(described(), now_ms)

    def end(self) -> None:
        """Write the file and the recording."""
        self.file.save(present(self.session.with_engine(Engine.learned)))
        assert self.live._ticks is not None
        assert self.live._ticks.close("over", within_s=60)

    @property
    def progress(self) -> Progress:
        return cast(Progress, self.session._engine._policy._keepers[Progress])


def test_the_next_sidecar_continues_from_the_file_and_its_recording_can_be_repeated(tmp_path: Path) -> None:
    first = Run(tmp_path, NOW_MS)
    jobs = first.progress.jobs.at
    jobs["tested_ms"][:4] = 7_000.0
    first.progress.known["user u"] = 3.0, 1.5
    first.end()
    second = Run(tmp_path, NOW_MS + 30_000)
    assert second.progress.jobs.at["tested_ms"][:4] == pytest.approx(7_000.0 + 30_000.0 * jobs["running"][:4])
    assert second.progress.known == {"user u": (3.0, 1.5)}
    second.end()
    verdict = verify(segments(tmp_path / "rec"))
    assert (verdict.segments, verdict.ticks, verdict.first) == (2, 2, None)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file with a state."""
    run = Run(tmp_path, NOW_MS)
    run.progress.known["user u"] = 3.0, 1.5
    run.end()
    return tmp_path / FILE


def told(file: LearnedFile, now_ms: int = NOW_MS, flags: int = int(FrameFlag.SNAPSHOT)) -> list[object]:
    """Return what a new sidecar tells its engine with the first frame, and again with the second."""
    frames = [Frame(FrameHeader(flags, 1, at, now_ms, 0, 100, 2), []) for at in (1, 2)]
    return [event for frame in frames for event in file.collect(frame)]


def test_the_state_is_told_once(kept: Path) -> None:
    file = LearnedFile(kept)
    (event,) = told(file)
    assert isinstance(event, LearnedState)
    assert event.content.tobytes() == kept.read_bytes()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert file.warnings() == ()
    assert told(LearnedFile(kept), flags=int(FrameFlag.SNAPSHOT | FrameFlag.MORE)) == [], "the frame is not whole"


@pytest.mark.parametrize("later_ms", [-1, AGE_MAX_MS + 1])
def test_a_state_that_is_old_or_of_the_future_is_not_used(kept: Path, later_ms: int) -> None:
    assert told(LearnedFile(kept), NOW_MS + later_ms) == []


def changed(**values: Any) -> Callable[[Path], Any]:
    """Return a function that changes fields of a file."""

    def change(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def first_number(path: Path) -> None:
    """Spoil the first number of the first application."""
    progress = json.loads(path.read_text())
    progress["jobs"] = "AAAAAAAA+H8" + progress["jobs"][11:]  # not a number
    path.write_text(json.dumps(progress))


def link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b""), "damaged: Invalid JSON"),
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "damaged: Invalid JSON"),
        (lambda path: path.write_bytes(b"[" * 100_000), "damaged: Invalid JSON"),
        (lambda path: path.write_bytes(path.read_bytes() + b" " * 100_000), "longer than 100000 bytes"),
        (changed(form="of another release"), "another release of Treadle wrote it"),
        (changed(jobs="AAAA"), "buffer size must be a multiple"),
        (changed(now_ms=-1), "greater than or equal to 0"),
        (changed(logs=[0.0]), "at least 5 items"),
        (changed(known={"user u": [-2.0, 0.0]}), "greater than or equal to 0"),
        (changed(ghosts=[["root", float("nan")]]), "finite number"),
        (changed(more=1), "Extra inputs"),
        (first_number, "a number that is not possible"),
        (link, "Too many levels of symbolic links"),
        (pipe, "not a regular file"),
        (lambda path: path.chmod(0o620), "others may have written it"),
        (lambda path: path.chmod(0o602), "others may have written it"),
    ],
)
def test_a_file_that_is_damaged_or_of_others_is_a_loss_that_the_status_says(
    kept: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], Any], why: str
) -> None:
    monkeypatch.setattr(learned_file, "BYTES_MAX", 100_000)
    spoil(kept)
    file = LearnedFile(kept)
    (warning,) = file.warnings()
    assert warning.startswith(f"the policy's earlier state is lost: {kept}: ")
    assert why in warning
    assert told(file) == []


def test_a_file_of_another_user_is_a_loss(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.config.trust.trusted_owners", lambda: {os.geteuid() + 1})
    assert "others may have written it" in LearnedFile(kept).warnings()[0]


def test_that_the_file_cannot_be_written_is_said_until_it_can(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    (state,) = cast(list[LearnedState], told(LearnedFile(kept)))
    taken = kept.with_name("taken")
    file = LearnedFile(taken / FILE)
    taken.touch()
    with caplog.at_level(logging.WARNING):
        file.save(state)
        file.save(state)
    assert file.warnings() == (f"the policy's state will not outlive the sidecar: {taken / FILE}: File exists",)
    assert len([record for record in caplog.records if "will not outlive" in record.message]) == 1
    taken.unlink()
    file.save(state)
    assert file.warnings() == ()
    assert (taken / FILE).read_bytes() == kept.read_bytes()


def test_a_fault_of_the_state_is_a_warning_until_a_state_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, answers = LearnedFile(tmp_path / FILE), [ValueError("no such row"), LearnedState(np.zeros(1, np.uint8))]
    seen: list[tuple[str, ...]] = []

    def state(_: object) -> object:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    def sleep(_: float) -> None:
        seen.append(tuple(file.warnings()))
        if not answers:
            raise InterruptedError

    monkeypatch.setattr("treadle.live.learned_file.time.sleep", sleep)
    with pytest.raises(InterruptedError):
        file.keep(cast(Session, SimpleNamespace(with_engine=state)))
    assert seen == [(), ("the policy's state will not outlive the sidecar: ValueError: no such row",), ()]

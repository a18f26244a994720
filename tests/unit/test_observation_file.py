"""Figures of `observe_only` outlive the sidecar, are read as a claim, and are shown by the sidecar alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.support.cli import Cli
from tests.support.optional import present
from tests.support.pages import FakeManager, served

from treadle.cli.main import run
from treadle.config import trust
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.engine.testing import StringTable, rows, small_cluster
from treadle.events import Containers, Event, Fate, Fates, Names
from treadle.live import observation_file
from treadle.live.engines import HubQuestionServer
from treadle.live.explain_server import open_explain_server
from treadle.live.observation_file import FILE, ObservationFile, open_observation
from treadle.live.policy_memory import state_folder
from treadle.live.question_socket import Close
from treadle.live.session import Session
from treadle.sidecar.hub import Hub
from treadle.sidecar.observation import Figures, Observation, Tally
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import FrameEncoder, FrameFlag, FrameHeader

FOUND = Figures(
    since_ms=1_700_000_000_000,
    seen_ms=1_700_000_009_000,
    stock_placements=2,
    would_reject={"NODE_FULL": 3},
    total=Tally(same_node=1, earlier=1, earlier_ms=1500, capacity_scheduler_only=1),
    by_queue={"root.a": Tally(same_node=1, earlier=1, earlier_ms=1500, capacity_scheduler_only=1)},
    by_framework={"TEZ": Tally(same_node=1, earlier=1, earlier_ms=1500, capacity_scheduler_only=1)},
)


def written(folder: Path, content: str = FOUND.model_dump_json()) -> Path:
    """Return the file of figures in a folder."""
    (folder / FILE).write_text(content)
    (folder / FILE).chmod(0o600)
    return folder / FILE


def test_figures_outlive_a_sidecar(tmp_path: Path) -> None:
    path = written(tmp_path)
    first = ObservationFile(path).observation
    assert first.document() == FOUND.model_dump_json()
    closing: list[Close] = []
    path.unlink()
    open_observation(tmp_path / "made", closing)
    closing[0]("the end")
    assert not (tmp_path / "made").exists(), "nothing was counted"


def test_what_was_counted_is_written_at_the_end_for_this_user_alone(tmp_path: Path) -> None:
    session = Observed(ObservationFile(tmp_path / "state" / FILE))
    session.run()
    session.file.close("the end")
    path = tmp_path / "state" / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    again = ObservationFile(path).observation.shown()
    assert again["stock_placements"] == again["total"]["same_node"] == 1


def wrong(**changes: Any) -> str:
    return json.dumps(json.loads(FOUND.model_dump_json()) | changes)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[" * 100_000,
        "\x00\xff",
        "[]",
        wrong(stock_placements=-1),
        wrong(stock_placements=1 << 60),
        wrong(stock_placements=1.5),
        wrong(stock_placements=True),
        wrong(stock_placements="2"),
        wrong(more=1),
        wrong(total={"same_node": 1, "more": 2}),
        wrong(by_queue={str(number): {} for number in range(1002)}),
        wrong(by_queue={"a" * 257: {}}),
        wrong(would_reject={str(number): 1 for number in range(1000)}),
        wrong(lost="a" * 1001),
    ],
)
def test_a_file_that_is_damaged_is_a_loss_that_is_said(content: str, tmp_path: Path) -> None:
    shown = ObservationFile(written(tmp_path, content)).observation.shown()
    (warning,) = shown["warnings"]
    assert warning.startswith(f"earlier figures are lost: {tmp_path / FILE}: damaged")
    assert (shown["stock_placements"], shown["by_queue"]) == (0, {})


def test_a_loss_is_still_said_after_the_next_start(tmp_path: Path) -> None:
    path = written(tmp_path, "{")
    ObservationFile(path).save()
    assert "earlier figures are lost" in ObservationFile(path).observation.shown()["warnings"][0]


def _link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_link, "Too many levels of symbolic links"),
        (_pipe, "not a regular file"),
        (_folder, "Is a directory"),
        (lambda path: path.chmod(0o660), "others may have written it"),
        (lambda path: path.write_bytes(b"x" * 101), "longer than 100 bytes"),
    ],
)
def test_a_file_that_others_may_have_written_is_not_believed(
    spoil: Callable[[Path], Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation_file, "BYTES_MAX", 100)
    path = written(tmp_path, "{}")
    spoil(path)
    assert ObservationFile(path).observation.shown()["warnings"] == [f"earlier figures are lost: {path}: {why}"]


def test_a_file_of_another_user_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.geteuid() in trust.trusted_owners()
    monkeypatch.setattr(trust, "trusted_owners", lambda: {os.geteuid() + 1})
    assert "others may have written it" in ObservationFile(written(tmp_path)).observation.shown()["warnings"][0]


def test_figures_that_cannot_be_kept_are_said_until_they_can(tmp_path: Path) -> None:
    session = Observed(ObservationFile(tmp_path / "state" / FILE))
    session.run()
    (tmp_path / "state").touch()
    session.file.save()
    said = session.file.observation.warnings()
    assert said == (f"what observe_only finds will not outlive the sidecar: {tmp_path / 'state' / FILE}: File exists",)
    session.send()
    assert said[0] in session.status["warnings"]
    (tmp_path / "state").unlink()
    session.file.save()
    assert session.file.observation.warnings() == ()
    assert (tmp_path / "state" / FILE).is_file()


class Observed:
    """A sidecar's session under a ResourceManager that only observes."""

    def __init__(self, file: ObservationFile) -> None:
        self.file = file
        settings = default_settings()
        self.session = Session(
            Engine, lambda: settings, reply_max_bytes=1 << 20, clock_ns=lambda: 0, listeners=[file.observation]
        )
        self.encoder, self.sequence, self.now_ms = FrameEncoder(), 0, 1_700_000_000_000
        self.status: dict[str, Any] = {}

    def send(self, *events: Event, flags: int = FrameFlag.OBSERVE) -> Answer:
        """Send a frame."""
        self.sequence += 1
        header = FrameHeader(int(flags), 1, self.sequence, self.now_ms, 0, 16, 2)
        answer = decode_answer(self.session.decide(self.encoder.encode(header, events)), 16)
        assert not answer.resend, answer.status
        self.status = json.loads(answer.status) if answer.status else self.status
        return answer

    def run(self) -> None:
        """Have the first proposal placed on the same node, and all others judged as rejected."""
        snapshot, names, types, settings, *others = small_cluster()
        more = (*types.names, *(text for pair in settings.values.items() for text in pair))
        cluster = (snapshot, Names((*names.texts, *more)), types, settings, *others)
        made = self.send(*cluster, flags=FrameFlag.OBSERVE | FrameFlag.SNAPSHOT).proposals
        assert len(made)
        self.now_ms += 50
        row = {"container": 9, "application": made.application[0], "node": made.node[0], "event": 1}
        times = {"time_ms": self.now_ms, "created_ms": self.now_ms, "capability": [1024, 1]}
        priority = self.session.with_engine(lambda engine: priority_of(engine, made.application[0], made.key[0]))
        fates = np.full(len(made), Fate.NODE_FULL, np.uint8)
        fates[0] = Fate.OBSERVED
        self.send(
            rows(Containers, StringTable(), [row | times | {"priority": priority}]),
            Fates(np.full(len(made), 1), np.arange(len(made), dtype=np.int32), fates, np.zeros(len(made), np.int64)),
        )


def priority_of(engine: Engine, application: int, key: int) -> int:
    inside = present(engine.inside())
    requests = inside[0].requests
    return int(requests.at["priority"][requests.index.find(application, key)])


def test_a_session_compares_what_its_engine_proposes(tmp_path: Path) -> None:
    session = Observed(ObservationFile(tmp_path / FILE))
    session.run()
    shown = session.file.observation.shown()
    assert shown["total"]["same_node"] == shown["by_queue"]["root.q0"]["same_node"] == 1
    assert shown["total"]["earlier_ms"] == 50
    assert shown["would_reject"]["NODE_FULL"] >= 1
    assert shown["warnings"] == []


@contextmanager
def sidecar(config: Path, observation: Observation, several: bool) -> Iterator[str]:
    """Open the door of a sidecar, of one engine or of several; yields the address of its ResourceManager."""
    config.write_text("")
    folder = present(state_folder(config))

    class Shared:
        def roster_json(self) -> dict[str, Any]:
            return {"engines": {}, "applications": {}}

    if several:
        folder.mkdir(mode=0o700)
        door: Any = HubQuestionServer(folder / "explain.sock", config, cast(Hub, Shared()), observation)
        door.start()
    else:
        door = open_explain_server(folder, lambda action: None, observation)
    try:
        bean = {"Mode": "observe_only", "LeaseHeld": 1, "Schedules": 0}
        with served(FakeManager({"Treadle": bean}, {"yarn.scheduler.treadle.config.file": str(config)})) as manager:
            yield manager.url
    finally:
        door.close()


@pytest.mark.parametrize("several", [False, True])
def test_the_sidecar_shows_what_it_has_found(several: bool, tmp_path: Path, cli: Cli) -> None:
    with sidecar(tmp_path / "treadle.yaml", Observation(FOUND), several) as url:
        assert json.loads(cli(["observe", "--rm", url, "--output=json"]).out) == {
            "mode": "observe_only",
            **Observation(FOUND).shown(),
        }
        assert "queue root.a" in cli(["observe", "--rm", url]).out
        out = " ".join(cli(["status", "--rm", url]).out.replace("│", " ").split())
        assert "2 containers compared; 50 % both, same node; 0 % both, other node; 50 % not by Treadle" in out


def test_a_sidecar_that_is_gone_is_said_with_an_exit_code(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "treadle.yaml"
    bean = {"Mode": "observe_only", "LeaseHeld": 0, "Schedules": 0, "LastError": "SIGKILL ended it"}
    with served(FakeManager({"Treadle": bean}, {"yarn.scheduler.treadle.config.file": str(config)})) as manager:
        captured = cli(["observe", "--rm", manager.url], 2)
        assert "no engine runs that could be asked" in captured.err
        assert captured.out == ""
        assert "not known: no engine runs" in " ".join(cli(["status", "--rm", manager.url], 1).out.split())


def test_a_door_without_figures_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sidecar(tmp_path / "treadle.yaml", cast(Observation, None), False) as url:
        assert run(["observe", "--rm", url]) == 2
    assert "the sidecar does not compare" in capsys.readouterr().err

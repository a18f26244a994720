"""`treadle explain` asks the sidecar through a socket of its user's own; frames come and go beside it."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.engine import fake_rm
from tests.engine.fake_rm import LEAF
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.optional import present
from tests.support.pages import FakeManager, served

from treadle.admin import plan
from treadle.admin.plan import UNIT
from treadle.cli.explain import UNIT_STATE, NoSidecarError, ask_sidecar, state_places
from treadle.cli.main import run
from treadle.config import trust
from treadle.config.settings import default_settings
from treadle.config.trust import EXPLAIN_SOCKET
from treadle.engine import Engine
from treadle.errors import UserError
from treadle.live import question_socket as door_module
from treadle.live.engines import HubQuestionServer
from treadle.live.explain_server import ExplainServer, open_explain_server
from treadle.live.policy_memory import state_folder
from treadle.live.question_socket import QuestionServer, ask_server, opened
from treadle.shipped import templates
from treadle.sidecar.hub import Hub


@pytest.fixture(scope="module")
def engine() -> Engine:
    return new_engine()


def new_engine() -> Engine:
    """Return an engine of whose two applications one is served and one asks for more than a node has."""
    rm = fake_rm.cluster((8192, 8))
    rm.job(1, (1024, 1), name="fine")
    rm.ask(rm.application(LEAF, name="\x1b[31mlarge"), 7, 1, (16384, 1))
    engine = Engine(default_settings())
    engine.apply(rm.frame())
    engine.decide(1000, 16, sequence=rm.sequence)
    return engine


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[ExplainServer]:
    folder = tmp_path_factory.mktemp("door") / "state"
    with closing(present(open_explain_server(folder, lambda action: action(engine)))) as door:
        yield door


def explain(door: ExplainServer, *words: str) -> list[str]:
    return ["explain", *words, "--socket", str(door.path)]


def test_an_ask_that_is_never_served_is_told_with_an_exit_code(door: ExplainServer, cli: Cli) -> None:
    shown = cli(explain(door, "application_0_0002", "--node", "n0"), 1).out
    for text in ("never", "no node of the cluster is that large", "16384 memory-mb", "1 too small", "request 7"):
        assert text in shown
    assert "n0: it is too small even if it were empty" in shown
    assert "\x1b[31m" not in shown, "users name their jobs as they like"


def test_the_queue_of_a_job_is_named_if_it_is_stalled(
    door: ExplainServer, engine: Engine, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = json.loads(cli([*explain(door, "application_0_0002"), "--output=json"], 1).out)["queue"]
    lines = [f"stalled: queue {path} has 2.5% of the 15.0%", f"stalled: queue {path}.other has 1.0% of the 9.0%"]
    monkeypatch.setattr(engine, "stalled", lambda: lines)
    shown = cli(explain(door, "application_0_0002"), 1).out
    assert lines[0] in shown
    assert lines[1] not in shown


def test_a_treadle_yaml_that_is_not_there_is_named(tmp_path: Path, cli: Cli) -> None:
    error = cli(["explain", "1", "--config", str(tmp_path / "no.yaml")], 2).err
    assert f"--config {tmp_path / 'no.yaml'} is not there" in error


@pytest.mark.parametrize(
    ("bean", "said"),
    [
        ({"Mode": "off", "LeaseHeld": 0, "Schedules": 0}, "no engine runs that could be asked: the mode is off"),
        (
            {"Mode": "enforce", "LeaseHeld": 0, "Schedules": 0, "LastError": "SIGKILL ended it"},
            "no engine runs that could be asked: no engine holds the lease; SIGKILL ended it",
        ),
        ({"Mode": "enforce", "LeaseHeld": 1, "Schedules": 1}, "run this on the ResourceManager's host"),
        (None, "run this on the ResourceManager's host"),
    ],
)
def test_where_no_sidecar_listens_the_resource_manager_says_why(
    bean: dict[str, Any] | None, said: str, tmp_path: Path, cli: Cli
) -> None:
    with served(FakeManager({} if bean is None else {"Treadle": bean}, {})) as manager:
        error = cli(["explain", "1", "--socket", str(tmp_path / "none.sock"), "--rm", manager.url], 2).err
    assert said in error


class SharedOut:
    """A hub that says who serves what."""

    def __init__(self, **applications: str) -> None:
        self.applications = applications

    def roster_json(self) -> dict[str, Any]:
        owners = {application: ["rest", owner, ""] for application, owner in self.applications.items()}
        return {"engines": {"prod": {}, "rest": {}}, "applications": owners}


def _do(engine: Engine, action: Callable[[Engine], Any]) -> Any:
    return action(engine)


@contextmanager
def several(config: Path, hub: SharedOut, **engines: Engine) -> Iterator[str]:
    """Open the doors of a hub and of engines; yields the address of their manager."""
    with ExitStack() as stack:
        for name, engine in engines.items():
            door = open_explain_server(state_folder(config, engine=name), partial(_do, engine))
            stack.enter_context(closing(present(door)))
        of_hub = opened(state_folder(config), lambda path: HubQuestionServer(path, config, cast(Hub, hub)))
        stack.enter_context(closing(present(of_hub)))
        figures = json.dumps({"engines": {name: {} for name in ("prod", "rest")}})
        settings = {"yarn.scheduler.treadle.config.file": str(config)}
        with served(FakeManager({"Treadle": {"Engines": figures}}, settings)) as manager:
            yield manager.url


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["0001"], 0, "application_0_0001"),
        (["0001", "--engine", "prod"], 2, "the engine has not heard of the cluster yet"),
        (["0001", "--engine", "prodd"], 2, "'prodd' is not one of prod, rest; did you mean prod?"),
        (["0009"], 2, "no engine serves an application 0009 that runs"),
    ],
)
def test_its_engine_is_asked(
    arguments: list[str], code: int, said: str, engine: Engine, tmp_path: Path, cli: Cli
) -> None:
    # a socket's path has 107 characters at the most
    config = written(tmp_path / "c.yaml", "")
    engines = {"prod": Engine(default_settings()), "rest": engine}
    with several(config, SharedOut(application_0_0001="rest"), **engines) as rm:
        shown_ = cli(["explain", *arguments, "--rm", rm], code)
        assert said in shown_.out + shown_.err
        assert "is served by rest, whose selector is the first" in cli(["engines", "--app", "0001", "--rm", rm]).out
        assert ask_sidecar(state_places(config), {"held": True}) == {"held": []}


def test_an_engine_is_named_where_there_is_one_alone(door: ExplainServer, cli: Cli) -> None:
    assert "there is one engine, which has no name" in cli(explain(door, "1", "--engine", "rest"), 2).err


def test_it_is_json_for_scripts(door: ExplainServer, cli: Cli) -> None:
    found = json.loads(cli(explain(door, "0002", "--output=json", "--ask", "7"), 1).out)
    assert [ask["key"] for ask in found["asks"]] == [7]
    assert found["asks"][0]["causes"][0]["why"] == "larger_than_any_node"
    assert json.loads(cli(explain(door, "0002", "--output=json", "--ask", "8")).out)["asks"] == []
    assert "it asks for nothing now under the request key 8" in cli(explain(door, "0002", "--ask", "8")).out
    assert json.loads(cli(explain(door, "2", "--output=json", "--ask", "7"), 1).out) == found, "without zeros too"


def test_an_application_that_waits_for_its_fate_only_is_no_mistake(door: ExplainServer, cli: Cli) -> None:
    assert "has not answered yet" in " ".join(cli(explain(door, "0001")).out.split())


def test_who_is_not_known_is_told(door: ExplainServer, cli: Cli) -> None:
    error = cli(explain(door, "application_0_0099"), 2).err
    assert "the engine has no application application_0_0099 that runs" in error


def test_the_end_of_an_id_that_two_applications_have_lists_both(tmp_path: Path, cli: Cli) -> None:
    """As after a restart of the ResourceManager."""
    both = new_engine()
    apps = present(both.inside())[0].apps.at
    apps["cluster_timestamp"][1], apps["id"][1] = 1700000000000, apps["id"][0]
    with closing(present(open_explain_server(tmp_path / "state", lambda action: action(both)))) as door:
        said = cli(explain(door, "0001"), 2).err
        assert "application_0_0001, application_1700000000000_0001; give one of them whole" in said
        assert "application_0_0001" in cli(explain(door, "application_0_0001")).out
        assert run(explain(door, "1700000000000_0001")) == 1


def test_the_end_of_an_id_that_engines_share_out_twice_lists_both(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "c.yaml").write_text("")
    hub = SharedOut(application_1_0001="rest", application_2_0001="rest")
    with several(tmp_path / "c.yaml", hub) as rm:
        for words in (["explain", "0001"], ["engines", "--app", "0001"]):
            assert "application_1_0001, application_2_0001" in cli([*words, "--rm", rm], 2).err


class Yarn(FakeManager):
    """A ResourceManager whose engine has ended, and that shows applications."""

    def __init__(self, *apps: dict[str, Any]) -> None:
        bean = {"Mode": "enforce", "LeaseHeld": 0, "Schedules": 0, "LastError": "SIGKILL ended it"}
        super().__init__({"Treadle": bean}, {})
        self.apps = {app["id"]: {"name": "a job", "user": "ann", "queue": "root.a", **app} for app in apps}

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        one = path.removeprefix("/ws/v1/cluster/apps/")
        if one != path:
            return (200, {"app": self.apps[one]}) if one in self.apps else (404, {})
        if path == "/ws/v1/cluster/apps":
            return 200, {"apps": {"app": list(self.apps.values())}}
        return super().answer(path, query)


ENDED = {
    "id": "application_0_0099",
    "state": "KILLED",
    "finalStatus": "KILLED",
    "diagnostics": "killed by \x1b[31mann\nover the quota",
}
WAITS = {"id": "application_0_0098", "state": "ACCEPTED", "diagnostics": "Queue's AM resource limit exceeded."}


@pytest.mark.parametrize("given", ["application_0_0099", "0_0099", "0099"])
def test_an_application_that_has_ended_is_told_its_end_with_yarns_diagnostics(
    given: str, door: ExplainServer, cli: Cli
) -> None:
    with served(Yarn(ENDED)) as manager:
        shown_ = cli(["explain", given, "--socket", str(door.path), "--rm", manager.url]).out
        assert "application_0_0099 (a job) of ann in root.a: KILLED, final status KILLED" in shown_
        assert "YARN's diagnostics (not Treadle's):" in shown_
        assert "over the quota" in shown_
        assert "\x1b" not in shown_
        found = json.loads(
            cli(["explain", given, "--output=json", "--socket", str(door.path), "--rm", manager.url]).out
        )
        assert (found["application"], found["yarn"]["state"], found["asks"]) == ("application_0_0099", "KILLED", [])


def test_two_ended_applications_with_one_number_are_both_listed(door: ExplainServer, cli: Cli) -> None:
    with served(Yarn(ENDED, {**ENDED, "id": "application_1_0099"})) as manager:
        error = cli(["explain", "0099", "--socket", str(door.path), "--rm", manager.url], 2).err
    assert "application_0_0099, application_1_0099" in error


def test_without_an_engine_yarns_diagnostics_are_shown_as_yarns(tmp_path: Path, cli: Cli) -> None:
    with served(Yarn(WAITS)) as manager:
        said = cli(["explain", "0098", "--socket", str(tmp_path / "none.sock"), "--rm", manager.url], 2)
    assert "application_0_0098 (a job) of ann in root.a: ACCEPTED" in said.out
    assert said.out.index("YARN's diagnostics (not Treadle's):") < said.out.index("AM resource limit exceeded")
    assert "no engine runs that could be asked: no engine holds the lease; SIGKILL ended it" in said.err


def test_where_no_treadle_yaml_is_named_yarns_diagnostics_are_shown_too(cli: Cli) -> None:
    with served(Yarn(WAITS)) as manager:
        manager.beans["Treadle"]["LeaseHeld"] = 1
        said = cli(["explain", "application_0_0098", "--rm", manager.url], 2)
    assert "AM resource limit exceeded" in said.out
    assert "does not say what yarn.scheduler.treadle.config.file is" in said.err


def test_an_application_that_runs_unknown_to_the_engine_is_no_success(door: ExplainServer, cli: Cli) -> None:
    with served(Yarn(WAITS)) as manager:
        said = cli(["explain", "0098", "--socket", str(door.path), "--rm", manager.url], 2)
    assert "AM resource limit exceeded" in said.out
    assert "the engine has no application 0098 that runs" in said.err


def test_a_socket_that_a_dead_sidecar_left_is_no_matter_of_who_asks(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    place = tmp_path / "state" / EXPLAIN_SOCKET
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    with pytest.raises(NoSidecarError, match="the sidecar that opened it has ended"):
        ask_sidecar([place], {"held": True})


def test_the_socket_is_its_users_own_and_replaces_one_that_was_left(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    (tmp_path / "state").mkdir(mode=0o700)
    left.bind(str(tmp_path / "state" / EXPLAIN_SOCKET))
    left.close()
    for _ in range(2):
        door = present(open_explain_server(tmp_path / "state", lambda action: None))
        assert door.path.stat().st_mode & 0o777 == 0o600
        assert door.path.parent.stat().st_mode & 0o777 == 0o700
        door.close()
        assert not door.path.exists()


def test_another_user_gets_no_answer(door: ExplainServer, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "trusted_owners", frozenset)
    assert "or does not answer this user; run this on" in cli(explain(door, "0001"), 2).err


RUBBISH = [
    b"rubbish\n",
    b"[]\n",
    b"{}\n",
    b'{"application": 1, "ask": "x"}\n',
    b'{"application": 1, "ask": Infinity}\n',
    b"[" * 4000 + b"\n",
    b"x" * 9999,
]


@pytest.mark.parametrize("line", RUBBISH)
def test_rubbish_ends_nothing(door: ExplainServer, line: bytes, cli: Cli) -> None:
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(str(door.path))
        connected.sendall(line)
        assert b"not a question" in connected.recv(1 << 16)
    assert cli(explain(door, "0001")).out


def test_who_asks_a_byte_at_a_time_is_not_waited_for(
    door: ExplainServer, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(door_module, "WAIT_S", 0.5)
    sent = 0
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(str(door.path))
        connected.settimeout(0.05)
        with suppress(BrokenPipeError, ConnectionResetError):
            while sent < 400:
                connected.sendall(b" ")
                sent += 1
                with suppress(TimeoutError):
                    assert connected.recv(1) == b""
                    break
    assert sent < 400
    monkeypatch.undo()
    assert cli(explain(door, "0001")).out


def test_a_question_that_fails_is_answered_with_why(tmp_path: Path) -> None:
    def look(_: object) -> None:
        raise RuntimeError("out of \x1bluck")

    with closing(present(open_explain_server(tmp_path / "state", look))) as door:
        for _ in range(2):
            found = ask_sidecar([door.path], {"application": "0001"})
            assert "the question failed: RuntimeError: out of " in found["error"]
            assert "\x1b" not in found["error"]


class Exhausted:
    """A listening socket of a process that has as many files open as it may, for some time."""

    def __init__(self, listening: socket.socket, failures: int) -> None:
        self._listening, self.failures = listening, failures

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures > 0:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listening.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)


def test_a_door_that_could_not_let_anybody_in_does_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(door_module, "RETRY_S", 0.01)
    with closing(ExplainServer(tmp_path / "explain.sock", lambda action: action(Engine(default_settings())))) as door:
        door._listening = Exhausted(door._listening, 3)  # type: ignore[assignment]
        door.start()
        assert ask_sidecar([door.path], {"held": True}) == {"held": []}
        assert sum("Too many open files" in each.message for each in caplog.records) == 1


class Drips(QuestionServer):
    """Answers with a byte now and then."""

    def _answer(self, connected: socket.socket) -> None:
        for _ in range(100):
            connected.sendall(b" ")
            self._closed.wait(0.05)
        connected.sendall(b"{}\n")


def test_an_answer_that_comes_byte_by_byte_is_given_up(tmp_path: Path) -> None:
    with closing(present(opened(tmp_path, Drips))), pytest.raises(TimeoutError):
        ask_server(tmp_path, {"held": True}, 0.5)


class Says(QuestionServer):
    """Answers one thing."""

    answer = b""

    def answer_to(self, line: bytes) -> bytes:
        return self.answer


@pytest.mark.parametrize("answer", [b"[", b"[]", b'{"held": 1}', b"[" * 100_000])
def test_one_engine_without_an_answer_hides_no_others_nodes(answer: bytes, tmp_path: Path) -> None:
    config = written(tmp_path / "c.yaml", "")
    with ExitStack() as stack:
        for name, content in (("prod", answer), ("rest", b'{"held": [{"node": "n0"}]}')):
            door = present(opened(present(state_folder(config, engine=name)), Says))
            stack.enter_context(closing(door)).answer = content
        hub = stack.enter_context(closing(HubQuestionServer(tmp_path / "hub.sock", config, cast(Hub, SharedOut()))))
        assert json.loads(hub.answer_to(b'{"held": true}')) == {"held": [{"node": "n0"}]}


def test_the_nodes_that_are_kept_free_are_told(door: ExplainServer, engine: Engine) -> None:
    def held() -> list[dict[str, Any]]:
        return list(ask_sidecar([door.path], {"held": True})["held"])

    assert held() == []
    inside = present(engine.inside())
    cluster = inside[0]
    row = int(np.flatnonzero(cluster.requests.at["key"] == 7)[0])
    cluster.nodes.at["hold_row"][0], cluster.nodes.at["hold_until_ms"][0] = row, 4500
    try:
        assert held() == [{"node": "n0", "application": "application_0_0002", "left_ms": 3500}]
    finally:
        cluster.nodes.at["hold_row"][0] = -1


def test_where_no_page_answers_a_treadle_yaml_can_be_named(cli: Cli) -> None:
    said = cli(["explain", "0001", "--rm", "http://127.0.0.1:9"], 2).err
    assert "127.0.0.1:9" in said
    assert "or name the engine's treadle.yaml with --config" in said


def test_without_a_sidecar_it_says_where_to_look(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "treadle.yaml").touch()
    said = cli(["explain", "0001", "--config", str(tmp_path / "treadle.yaml")], 2).err
    assert f"{tmp_path}/.treadle.yaml.state/explain.sock" in said
    assert "--socket" in said


def test_a_sidecar_that_is_busy_is_not_called_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.cli.explain._TIMEOUT_S", 0.2)
    place = tmp_path / EXPLAIN_SOCKET
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen(0)
        with pytest.raises(UserError, match=r"has not answered within 0\.2 s: .*; ask again"):
            ask_sidecar([place], {"held": True})
        with pytest.raises(UserError, match="too many ask the sidecar at once; ask again"):
            ask_sidecar([place], {"held": True})


def test_without_a_place_there_is_no_door_and_the_sidecar_goes_on(tmp_path: Path) -> None:
    assert open_explain_server(None, lambda action: None) is None
    assert open_explain_server(tmp_path / ("long" * 50), lambda action: None) is None


def test_the_command_looks_where_the_sidecar_puts_it_and_in_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "treadle.yaml"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    beside = present(state_folder(config))
    monkeypatch.setattr("treadle.live.policy_memory.os.access", lambda *_: False)  # as where root owns the folder
    kept = present(state_folder(config, {"STATE_DIRECTORY": str(tmp_path)}))
    of_unit = UNIT_STATE / kept.relative_to(tmp_path)
    assert state_places(config) == [beside / EXPLAIN_SOCKET, of_unit / EXPLAIN_SOCKET]


def test_the_units_state_is_where_the_command_looks() -> None:
    unit = (templates() / "systemd" / UNIT).read_text()
    assert f"StateDirectory={UNIT_STATE.relative_to('/var/lib')}\n" in unit


ANSWER: dict[str, Any] = {
    "application": "application_0_0001",
    "name": "nightly",
    "user": "ann",
    "queue": "root",
    "state": "ACTIVE",
    "facts": {"containers": 0, "asked_for": 0, "proposed": 0, "ahead_in_queue": 0, "asking_in_queue": 0, "order": "x"},
    "rejected": {},
    "conflicts": 0,
    "left_out": 0,
    "note": "\x1b]0;title\x07\x1b[2Jslow",
    "asks": [],
}
LISTENER = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
if sys.argv[2]:
    os.setuid(int(sys.argv[2]))
listening.listen(1)  # whose it is from now on is what the kernel tells of it
print("there", flush=True)
connected, _ = listening.accept()
print("asked:", connected.recv(4096), flush=True)
connected.sendall(sys.argv[3].encode() + b"\\n")
"""


@contextmanager
def listener(place: Path, user: str = "", answer: Mapping[str, Any] = ANSWER) -> Iterator[subprocess.Popen[str]]:
    """Run a process, of a user if one is given, that listens at a socket and answers once."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENER, str(place), user, json.dumps(answer)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_a_note_commands_no_terminal(tmp_path: Path, cli: Cli) -> None:
    with listener(tmp_path / EXPLAIN_SOCKET):
        said = cli(["explain", "1", "--socket", str(tmp_path / EXPLAIN_SOCKET)])
    assert "slow" in said.err
    assert "nightly" in said.out
    assert "\x1b" not in said.err + said.out


@pytest.mark.parametrize(("share", "one"), [("none", True), ("capacity", False)])
def test_explain_says_when_the_applications_of_all_queues_are_in_one_order(
    tmp_path: Path, cli: Cli, share: str, one: bool
) -> None:
    facts = ANSWER["facts"] | {"share": share, "used_share": 0.1, "guaranteed_share": 0.5}
    with listener(tmp_path / EXPLAIN_SOCKET, answer=ANSWER | {"facts": facts}):
        said = cli(["explain", "1", "--socket", str(tmp_path / EXPLAIN_SOCKET)])
    assert f"(share {share}" in said.out
    assert ("applications of all queues are in one order" in said.out) == one


def test_who_listens_is_neither_root_nor_the_sidecars_user_and_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, as_root = tmp_path / EXPLAIN_SOCKET, os.geteuid() == 0
    if not as_root:  # then the listener cannot become another user: this one is it
        monkeypatch.setattr(plan, "sidecar_users", lambda: frozenset({0}))
        monkeypatch.setattr(trust, "reason_against", lambda *_: "")
    with listener(place, "65534" if as_root else "") as poser:
        with pytest.raises(UserError, match=rf"{place} is not asked: .* listens there") as refused:
            ask_sidecar([place], {"held": True})
        assert not isinstance(refused.value, NoSidecarError), "no further place is asked"
        assert poser.stdout is not None
        assert poser.stdout.readline() == "asked: b''\n", "it was connected to, and got no question"


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_socket_in_a_folder_of_others_is_not_asked(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with listener(folder / EXPLAIN_SOCKET) as poser:
        with pytest.raises(UserError, match=r"is not asked: .*/state may be written by"):
            ask_sidecar([folder / EXPLAIN_SOCKET], {"held": True})
        poser.kill()
        assert poser.stdout is not None
        assert poser.stdout.read() == "", "it was not connected to"


@pytest.mark.parametrize("said", [b"[" * 100_000, b"[5]"])
def test_a_sidecar_that_answers_something_else_is_reported(tmp_path: Path, said: bytes) -> None:
    with closing(present(opened(tmp_path / "state", Says))) as door:
        door.answer = said + b"\n"
        with pytest.raises(NoSidecarError, match="no sidecar can be asked"):
            ask_sidecar([door.path], {"held": True})

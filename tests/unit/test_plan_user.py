"""A plan listener that somebody else starts behind a socket, as another user: what it does, knows and says."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pytest
from tests.support.other_user import AS_NOBODY, NOBODY, Starter, can_change_user
from tests.support.waiting import eventually
from tests.unit.test_plan_listener import KEY, ONE
from tests.unit.test_plan_process import SETTINGS, ask
from tests.unit.test_stage_reports import report as stage_report
from tests.unit.test_stage_reports import stage

from treadle.am.protocol import Kind, Status
from treadle.am.registries import application_of
from treadle.config.settings import JobHistory, Plans, Settings
from treadle.live import plan_source
from treadle.live.plan_source import PlanLink

# Without kernels: they are compiled for each user, which takes its time.
CODE: Final = (
    "from treadle.planner import graphene; from treadle.live import plan_child\n"
    "graphene.warm_up = lambda: None; plan_child.main()"
)
CHILD: Final = (sys.executable, "-P", "-c", CODE)


def settings(path: Path) -> Settings:
    listener = SETTINGS.listener.model_copy(update={"socket": str(path)})
    history = JobHistory(store="postgresql+psycopg://treadle:password@db/treadle")
    return replace(SETTINGS, plans=Plans(), listener=listener, history=history)


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # a socket's path is at most 107 bytes long
        yield Path(folder, "socket")


def uses(link: PlanLink) -> None:
    """See that a driver's report goes through."""
    link.register_attempt(ONE, "ann", "root.default", "SPARK")
    link.give_key(ONE, 5, KEY)
    assert eventually(lambda: link.listening)
    body = stage_report(stage(0, 3), ended=True)
    assert eventually(lambda: ask(link, Kind.STAGES, body) == Status.OK)
    # a process may answer a moment before the link knows that it listens
    assert [one.width for one in eventually(lambda: link.take_stages(application_of(ONE)))] == [3]


def test_a_process_that_somebody_else_starts_serves_without_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_source, "PAUSE_S", 0.1)
    starter = Starter(path, CHILD)
    link = PlanLink(settings(path), lambda _: None)
    with closing(starter):
        link.start()
        uses(link)
        assert b"password" not in link._begin
        starter.started[0].kill()
        assert eventually(lambda: len(starter.started) == 2), "another one is started"
        uses(link)
        link.close()
        assert starter.started[1].wait(300) == 0, "it ends with the connection"


@pytest.mark.skipif(
    not can_change_user(), reason="only root can start a process of another user, of a Python that it may run"
)
def test_the_process_is_of_another_user(path: Path) -> None:
    starter = Starter(path, (*AS_NOBODY, *CHILD))
    link = PlanLink(settings(path), lambda _: None)
    with closing(starter):
        link.start()
        uses(link)
        process = psutil.Process(starter.started[0].pid)
        assert set(process.uids()) == set(process.gids()) == {NOBODY}
        assert "CapEff:\t0000000000000000" in Path(f"/proc/{process.pid}/status").read_text()
        link.close()
        assert starter.started[0].wait(300) == 0


def test_why_nobody_can_be_reached_is_said_and_it_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_source, "PAUSE_S", 0.1)
    link = PlanLink(settings(path), lambda _: None)
    link.start()
    assert link.summary().startswith(
        f"no plans, tried again soon: the plan listener: listener.socket: {path}: No such file"
    )
    assert "systemctl start treadle-plans.socket" in link.summary()
    with closing(Starter(path, CHILD)):
        uses(link)
        assert eventually(lambda: link.summary() == "")
        link.close()


def test_a_socket_that_others_may_have_put_there_is_not_used(path: Path) -> None:
    path.parent.chmod(0o777)
    with closing(Starter(path, CHILD)) as starter:
        link = PlanLink(settings(path), lambda _: None)
        link.start()
        assert f"listener.socket: {path.parent} may be written by everybody" in link.summary()
        link.close()
        assert starter.started == [], "it has heard no key"

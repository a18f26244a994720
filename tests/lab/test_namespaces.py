"""A command in a separate network namespace: who reaches it, and what it says where there is none."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.other_users import STRANGER, connects, in_child

from treadle.cli.main import run
from treadle.config import trust
from treadle_lab.cli import _experiments
from treadle_lab.demo.run import Report
from treadle_lab.harness import namespaces
from treadle_lab.minicluster import MiniCluster

HERE = Path("/proc/self/ns/net")
SCRIPT = """
import json, os, socket, sys
from treadle_lab.harness import namespaces

failure = namespaces.isolate()
here = [os.readlink("/proc/self/ns/net"), [name for _, name in socket.if_nameindex()], namespaces.was_moved()]
print(json.dumps([failure, here, os.getppid(), os.getuid(), sys.argv[1:], sys.stdin.read()]))
sys.exit(7)
"""
LISTENER = """
import socket, sys
from treadle_lab.harness import namespaces

assert not namespaces.isolate()
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def possible() -> bool:
    """Say whether this user may make a network namespace here; another program says the same."""
    words = ["unshare", "-n", "true"] if os.geteuid() == 0 else ["unshare", "-rn", "true"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert (namespaces._failure(namespaces.NEW) == "") == (done.returncode == 0)
    return done.returncode == 0


@contextmanager
def listener() -> Iterator[tuple[int, int]]:
    """Have a process listen in a namespace of its own; give its id and port."""
    command = [sys.executable, "-c", LISTENER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.pid, int(child.stdout.readline())


def users() -> list[int | None]:
    """Return this user, and another one if this is root."""
    return [None, STRANGER] if os.geteuid() == 0 else [None]


def test_a_command_begins_again_in_its_process_where_only_loopback_is() -> None:
    command = [sys.executable, "-c", SCRIPT, "--x", "a b"]
    done = subprocess.run(command, input="typed", capture_output=True, text=True, check=False)
    failure, (where, names, moved), *same = json.loads(done.stdout)
    assert (done.returncode, *same) == (7, os.getpid(), os.getuid(), ["--x", "a b"], "typed")
    assert (failure == "", where != str(HERE.readlink()), moved) == (possible(),) * 3
    assert names == ["lo"] or failure


@pytest.mark.parametrize("user", users())
def test_a_namespace_is_made_as_any_user_who_keeps_its_number(user: int | None) -> None:
    def made() -> list[Any]:
        namespaces._make()
        with socket.create_server(("127.0.0.1", 0)) as server:
            return [connects(server.getsockname()[1]), os.getuid(), [name for _, name in socket.if_nameindex()]]

    if in_child(possible, user):
        assert in_child(made, user) == [True, os.getuid() if user is None else user, ["lo"]]


def test_others_reach_nothing_and_who_enters_does() -> None:
    if not possible():
        return
    with listener() as (process, port):
        assert not connects(port)

        def inside() -> bool:
            namespaces._join(process)
            return connects(port)

        assert in_child(inside) is True
        if os.geteuid() == 0:
            assert in_child(lambda: namespaces._failure(str(process)), STRANGER) != ""
        assert namespaces.enter(os.getpid()) == ""


def test_where_there_can_be_none_the_command_goes_on_and_knows_why() -> None:
    if not possible():
        return
    shell = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$0" -c "$1"'
    command = ["unshare", "-r", "sh", "-c", shell, sys.executable, SCRIPT]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    failure, (where, _, moved), *_ = json.loads(done.stdout)
    assert (failure, where, moved) == ("No space left on device", str(HERE.readlink()), False)


def test_without_a_number_for_root_only_what_no_stranger_can_have_put_there_is_roots() -> None:
    if os.geteuid() != 0 or not in_child(possible, STRANGER):
        return
    with TemporaryDirectory(dir="/tmp") as folder:  # where all may write

        def reason(owner: int) -> str:
            os.chown(folder, owner, owner)

            def inside() -> str:
                namespaces._make()
                trust._number_of_strangers.cache_clear()
                return trust.reason_against(Path(folder))

            return str(in_child(inside, STRANGER))

        assert reason(STRANGER) == ""
        assert f"{folder} belongs to" in reason(STRANGER + 1)


def test_without_a_number_for_root_the_home_of_another_account_is_not_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "home" / "policy.py"
    policy.parent.mkdir()
    policy.touch()
    found = policy.parent.stat()
    monkeypatch.setattr(trust, "_number_of_strangers", lambda: found.st_uid)
    assert trust._is_roots(policy.parent, found)
    monkeypatch.setattr(trust, "_homes_of_others", lambda: frozenset({str(policy.parent)}))
    assert not trust._is_roots(policy.parent, found)


def start(*options: str) -> int:
    return run(["minicluster", "start", "--folder", "/nowhere", *options])


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Clusters start at once; returned is what happens, in order."""
    done: list[str] = []
    monkeypatch.setattr(MiniCluster, "start", lambda _: done.append("started"))
    monkeypatch.setattr(MiniCluster, "layout", type("Layout", (), {"conf": "/conf", "rm_url": "http://rm"})())
    return done


def test_a_plain_start_warns(no_cluster: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert start() == 0
    said = capsys.readouterr()
    assert "any local user can run commands as" in said.err
    assert "--isolated" in said.err
    assert said.out == "export HADOOP_CONF_DIR=/conf\n"


def test_an_isolated_start_does_not_warn_and_is_refused_where_it_is_not_possible(
    no_cluster: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_lab.cli.minicluster.isolate", lambda: "")
    assert start("--isolated") == 0
    assert "warning" not in capsys.readouterr().err
    monkeypatch.setattr("treadle_lab.cli.minicluster.isolate", lambda: "Operation not permitted")
    assert start("--isolated") == 2
    assert no_cluster == ["started"]
    assert "Operation not permitted; leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("failure", ["", "Operation not permitted"])
def test_the_demo_is_isolated_or_warns_and_goes_on(
    failure: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_experiments, "isolate", lambda: failure)
    monkeypatch.setattr(import_module("treadle_lab.cli.demo"), "run_demo", lambda *_, **__: Report.of([], {}, []))
    said = cli(["demo", "--engines", "--out", str(tmp_path / "demo.json")]).err
    assert ("any local user can run commands as" in said) == bool(failure)

"""What a sidecar remembers of policies, and what the next one makes of it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.optional import present

from treadle.config.part_files import PartStoppedError
from treadle.config.settings import Settings, default_settings
from treadle.engine import Engine
from treadle.engine.testing import small_cluster
from treadle.errors import ConfigError
from treadle.events import PolicySwitch
from treadle.live.policies import LivePolicies, without_file_parts
from treadle.live.policy_memory import BAD_MAX, SWITCHES_MAX, PolicyMemory, state_folder
from treadle.policy import watchdog
from treadle.policy.watchdog import Endless, Watchdog

DEFAULT = default_settings().policy.name()


def write(folder: Path, body: str = "return view.queue_used[:, 0]") -> Path:
    (folder / "mine.py").write_text(f"class Mine:\n    def keys(self, view):\n        {body}\n")
    return written(folder / "treadle.yaml", "policy:\n  share: {kind: file, path: mine.py, class: Mine}\n")


def policies(file: Path) -> LivePolicies:
    return LivePolicies(file, PolicyMemory(file.parent / "state"))


FAILS_LATER = "return view.queue_used[:, 0] if view.now_ms < 60_000 else None"


def failed(policies: LivePolicies, settings: Settings, sequence: int = 1) -> Engine:
    """Return an engine whose policy has failed in its first decide."""
    engine = policies.make_engine(settings)
    engine.apply(small_cluster())
    assert len(engine.decide(100_000, 10, sequence=sequence)) == 10
    assert engine.failure is not None
    policies.failed(settings, engine.failure, engine.running, engine.switches())
    return engine


def test_what_failed_is_not_tried_again_until_it_changes(tmp_path: Path) -> None:
    file = write(tmp_path, FAILS_LATER)
    first = policies(file)
    failed(first, first.start())
    with pytest.raises(ConfigError, match="nothing has changed since; change it"):
        first.read()
    second = policies(file)
    assert second.start().policy.name() == DEFAULT
    assert "mine.py:Mine" in second.refusal
    assert f"{DEFAULT} runs instead" in second.refusal

    write(tmp_path, "return view.queue_used[:, 1]")
    third = policies(file)
    assert "share=mine.py:Mine" in third.start().policy.name()
    assert third.refusal == ""


def test_the_last_good_policy_is_kept_in_full(tmp_path: Path) -> None:
    file = write(tmp_path)
    first = policies(file)
    good = first.start()
    first.make_engine(good)
    write(tmp_path, FAILS_LATER)
    bad = first.read()
    first.follow(bad, good)
    assert failed(first, bad).running.digest == good.digest
    second = policies(file)
    again = second.start()
    assert again.digest == good.digest
    engine = Engine(again)
    engine.apply(small_cluster())
    assert len(engine.decide(100_000, 10, sequence=1)) == 10
    assert engine.failure is None


def test_a_part_that_got_stuck_is_known_to_the_next_sidecar(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path)
    settings = policies(file).start()
    folder = tmp_path / "state"
    stuck = present(PolicyMemory(folder).stuck_file(settings.digest))
    os.write(
        stuck, b'Timeout (0:00:01)!\nThread 0x1 (most recent call first):\n  File "/etc/mine.py", line 3 in keys\n'
    )
    os.close(stuck)
    with caplog.at_level(logging.ERROR):
        second = LivePolicies(file, PolicyMemory(folder))
    assert "most recent call first" in caplog.text
    assert second.start().policy.name() == DEFAULT
    assert 'got stuck: File "/etc/mine.py", line 3 in keys' in second.refusal
    assert "most recent call first" not in second.refusal
    assert "got stuck" in PolicyMemory(folder).reason_against(settings.digest)


def test_nothing_is_written_for_policies_without_parts_from_files(tmp_path: Path) -> None:
    file = written(tmp_path / "treadle.yaml", "seed: 3\n")
    mine = policies(file)
    mine.make_engine(mine.start())
    assert [path.name for path in tmp_path.iterdir()] == ["treadle.yaml"]


def test_only_so_many_failures_are_remembered(tmp_path: Path) -> None:
    memory = PolicyMemory(tmp_path)
    for number in range(BAD_MAX + 3):
        memory.remember_bad(str(number), "bad")
    kept = PolicyMemory(tmp_path)
    assert [kept.reason_against(str(number)) for number in (2, 3)] == ["", "bad"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"bad": 3, "good": null}', '{"bad": {}, "good": {"file": 1}}'])
def test_a_damaged_memory_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "policies.json").write_text(content)
    memory = PolicyMemory(tmp_path)
    assert (memory.good, memory.reason_against("x")) == (None, "")
    memory.remember_bad("x", "why")
    assert PolicyMemory(tmp_path).reason_against("x") == "why"


def test_a_folder_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = PolicyMemory(tmp_path / "file" / "state")
    memory.remember_bad("x", "why")
    assert memory.reason_against("x") == "why"
    assert memory.stuck_file("x") is None


def test_the_folder_is_beside_the_file_or_where_there_may_be_written(tmp_path: Path) -> None:
    assert state_folder(tmp_path / "t.yaml", {}) == tmp_path / ".t.yaml.state"
    absent = tmp_path / "absent" / "t.yaml"
    assert state_folder(absent, {}) is None
    found = present(state_folder(absent, {"STATE_DIRECTORY": str(tmp_path / "run"), "HOME": str(tmp_path / "home")}))
    assert found.parent == tmp_path / "run" / "treadle"
    found = present(state_folder(absent, {"HOME": str(tmp_path / "home")}))
    assert found.parent == tmp_path / "home" / ".local" / "state" / "treadle"


def test_warming_up_runs_no_code_of_a_users(tmp_path: Path) -> None:
    settings = policies(write(tmp_path)).start()
    assert without_file_parts(settings).policy.name() == DEFAULT


def test_changes_to_another_policy_are_kept_across_restarts(tmp_path: Path) -> None:
    file = write(tmp_path, FAILS_LATER)
    first = policies(file)
    (switch,) = failed(first, first.start(), sequence=7).switches()
    assert (switch.sequence, switch.policy) == (7, DEFAULT)

    policies(file).start()  # with the policy that took over: a change as well
    kept = switches(tmp_path / "state")
    assert [each["sequence"] for each in kept] == [7, 0]
    assert {name: value for name, value in kept[0].items() if name != "time"} == asdict(switch)
    assert kept[1]["policy"] == DEFAULT
    assert "mine.py:Mine" in kept[1]["reason"]
    assert kept[0]["time"] <= kept[1]["time"]


def switches(folder: Path) -> list[dict[str, Any]]:
    """Return the stored changes of policy, oldest first."""
    return [json.loads(line) for line in (folder / "switches.jsonl").read_text().splitlines()]


def test_only_the_latest_changes_are_kept(tmp_path: Path) -> None:
    for sequence in range(SWITCHES_MAX + 2):
        PolicyMemory(tmp_path).remember_switch(PolicySwitch(sequence, 1, DEFAULT, "late"))
    assert [each["sequence"] for each in switches(tmp_path)] == list(range(2, SWITCHES_MAX + 2))


# Parts that take too long are stopped; those that cannot be end the process, and the next one knows why.

ROOT = Path(__file__).resolve().parents[2]


def spin(stop: threading.Event | None = None) -> None:
    while stop is None or not stop.is_set():
        pass


def test_what_is_quick_is_left_alone() -> None:
    watch = Watchdog(60.0)
    assert [watch(lambda n=n: n * n) for n in range(100)] == [n * n for n in range(100)]  # type: ignore[misc]


def test_what_takes_too_long_is_stopped() -> None:
    watch = Watchdog(0.02)
    with pytest.raises(PartStoppedError):
        watch(spin)
    assert watch(lambda: 3) == 3, "what runs instead has a budget of its own"


def test_what_runs_in_one_decide_shares_a_budget() -> None:
    watch = Watchdog(60.0)
    watch._left_s = -1.0
    with pytest.raises(PartStoppedError):
        watch(lambda: None)
    watch._left_s = -1.0
    watch.begin()
    assert watch(lambda: 3) == 3


def test_a_part_that_catches_exceptions_is_stopped_all_the_same() -> None:
    def stubborn() -> None:
        while True:
            try:
                time.sleep(0.001)
            except Exception:
                continue

    with pytest.raises(PartStoppedError):
        Watchdog(0.02)(stubborn)


def test_other_errors_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        Watchdog(60.0)(lambda: 1 // 0)


def test_nothing_is_raised_once_the_part_is_over() -> None:
    # The function ends just when its time does, over and over: the exception must come from the call or not at all.
    watch = Watchdog(0.001)
    stopped = 0
    for _ in range(200):
        watch.begin()
        end = time.monotonic() + 0.001
        try:
            watch(lambda end=end: [None for _ in iter(lambda: time.monotonic() < end, False)])  # type: ignore[misc]
        except PartStoppedError:
            stopped += 1
        for _ in range(100):
            spin_once = object()
            del spin_once
    assert 0 <= stopped <= 200


@pytest.mark.parametrize(
    "stuck",
    [
        pytest.param("threading.Event().wait()", id="without the interpreter's lock"),
        pytest.param("sum(range(10 ** 15))", id="with the interpreter's lock"),
    ],
)
def test_what_cannot_be_stopped_ends_the_process_and_says_where_it_was(tmp_path: Path, stuck: str) -> None:
    part = written(tmp_path / "part.py", f"import threading\n\ndef keys():\n    {stuck}\n")
    program = (
        "import runpy\n"
        "from treadle.policy.watchdog import Watchdog\n"
        f"keys = runpy.run_path({str(part)!r})['keys']\n"
        f"with open({str(tmp_path / 'stuck')!r}, 'w') as stuck:\n"
        "    Watchdog(0.1, stuck.fileno())(keys)\n"
        "    print('still here')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f'File "{part}", line 4 in keys' in (tmp_path / "stuck").read_text()


def test_the_thread_that_watches_is_not_woken_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, woken = Watchdog(6000.0), list[int]()
    notify = watch._condition.notify

    def noted() -> None:
        woken.append(1)
        notify()

    monkeypatch.setattr(watch._condition, "notify", noted)
    for _ in range(1000):
        watch(lambda: None)
        watch.begin()
    asleep = watch._wakes_at
    if asleep is not None:  # it has had its turn: nothing later can be earlier than that
        woken.clear()
        for _ in range(1000):
            watch(lambda: None)
            watch.begin()
        assert woken == []
    watch._left_s = 0.02
    with pytest.raises(PartStoppedError):
        watch(spin)


def test_the_thread_that_watches_ends_when_there_is_nothing_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "IDLE_S", 0.01)
    watch = Watchdog(5.0)
    assert watch(lambda: 3) == 3
    monitor = watch._monitor
    if monitor is not None:
        monitor.join(180)  # it may have begun to wait for the end of the call, 5 s at most
        assert not monitor.is_alive()
    assert watch._monitor is None
    watch._left_s = 0.02
    with pytest.raises(PartStoppedError):
        watch(spin)


def test_calls_that_never_end_are_stopped_and_each_has_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "ENDLESS_S", 0.2)
    endless = Endless()
    with pytest.raises(PartStoppedError):
        endless(spin)
    endless._watchdog._left_s = 0.0
    assert endless(lambda: 3) == 3
    assert Endless(5.0)._watchdog.limit_s == 5.0


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "docs/examples/simulate/two-queues.yaml", "--policy"],
        ["replay", "tests/data/recordings/default", "--seeds", "1", "--policy"],
    ],
)
def test_a_part_that_never_ends_is_named_where_no_time_bounds_it(
    command: list[str], tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(watchdog, "ENDLESS_S", 0.6)
    body = "        while view.now_ms > 15_000: pass\n        return 1.0 * view.applications['id']\n"
    (tmp_path / "loop.py").write_text(f"class Loop:\n    def keys(self, view):\n{body}")
    (tmp_path / "loop.yaml").write_text("policy: {order: {kind: file, path: loop.py, class: Loop}}\n")
    error = cli([*command, str(tmp_path / "loop.yaml")], 2).err
    assert "policy.order (loop.py:Loop): loop.py:3: took too long and was stopped" in " ".join(error.split())

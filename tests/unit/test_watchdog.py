"""Parts that take too long are stopped; those that cannot be end the process, and the next one knows why."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.config.part_files import PartStoppedError
from treadle.policy import watchdog
from treadle.policy.watchdog import Endless, Watchdog

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
    part = tmp_path / "part.py"
    part.write_text(f"import threading\n\ndef keys():\n    {stuck}\n")
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
    watch = Watchdog(60.0)
    assert watch(lambda: 3) == 3
    monitor = watch._monitor
    if monitor is not None:
        monitor.join(180)  # it may have begun to wait for the end of the call, 60 s at most
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
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(watchdog, "ENDLESS_S", 0.6)
    body = "        while view.now_ms > 15_000: pass\n        return 1.0 * view.applications['id']\n"
    (tmp_path / "loop.py").write_text(f"class Loop:\n    def keys(self, view):\n{body}")
    (tmp_path / "loop.yaml").write_text("policy: {order: {kind: file, path: loop.py, class: Loop}}\n")
    assert run([*command, str(tmp_path / "loop.yaml")]) == 2
    assert "policy.order (loop.py:Loop): loop.py:3: took too long and was stopped" in " ".join(
        capsys.readouterr().err.split()
    )

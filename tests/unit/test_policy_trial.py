"""Parts from files are tried out in a process of their own before a command or a sidecar runs them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.config.errors import ConfigError
from treadle.live.policies import LivePolicies
from treadle.live.policy_memory import PolicyMemory
from treadle.live.trial import CPU_LIMIT_S, GRACE_S, LIMIT_S, check_apart

GOOD = "class Mine:\n    def keys(self, view):\n        return view.applications['id'] * 1.0\n"


def policy(folder: Path, part: str) -> Path:
    (folder / "mine.py").write_text(part)
    file = folder / "treadle.yaml"
    file.write_text("policy:\n  order: {kind: file, path: mine.py, class: Mine}\n")
    return file


def test_a_part_that_is_right_may_print_what_it_likes(tmp_path: Path) -> None:
    assert "order=mine.py:Mine" in check_apart(policy(tmp_path, f"print('loaded')\n{GOOD}"))


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("import os; os._exit(0)", "a part ended the process that tried it out (exit code 0)"),
        ("import signal, os; os.kill(os.getpid(), signal.SIGSEGV)", "a part ended the process that tried it out"),
        ("raise BaseException('panic')", "mine.py:1: BaseException: panic; put it right"),
        ("raise ValueError('no')", "mine.py:1: ValueError: no; put it right"),
    ],
)
def test_a_part_that_ends_badly_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, said: str
) -> None:
    file = policy(tmp_path, f"{first}\n{GOOD}")
    assert run(["policy", "check", str(file)]) == 2
    shown = capsys.readouterr().err
    assert f"{file}: policy: " in shown or f"{file}:2: policy.order.path: " in shown
    assert said in " ".join(shown.split())
    with pytest.raises(ConfigError) as refused:
        check_apart(file)
    assert said in str(refused.value)


def test_a_part_that_takes_all_memory_is_refused_before_the_host_has_none_left(tmp_path: Path) -> None:
    # what it asks for is never touched, so that it costs nothing where nobody bounds it
    file = policy(tmp_path, f"import numpy\nKEPT = [numpy.empty(1 << 30, numpy.uint8) for _ in range(8)]\n{GOOD}")
    with pytest.raises(ConfigError, match=r"mine.py:2: .*MemoryError: Unable to allocate 1.00 GiB"):
        check_apart(file)
    file = policy(tmp_path, f"KEPT = []\nwhile len(KEPT) < 8: KEPT.append(bytearray(1 << 30))\n{GOOD}")
    with pytest.raises(ConfigError, match=r"mine.py:2: MemoryError; put it right; .* may have 4 GiB of memory"):
        check_apart(file)


def test_a_part_that_sleeps_for_ever_in_c_is_refused_and_its_process_ended(tmp_path: Path) -> None:
    file = policy(tmp_path, f"import time; time.sleep(100_000)\n{GOOD}")
    with pytest.raises(ConfigError, match=r"takes longer than 4 s by the clock .* look for what it waits for"):
        check_apart(file, limit_s=4.0)


def test_a_part_that_works_for_ever_is_refused_by_its_cpu_time(tmp_path: Path) -> None:
    file = policy(tmp_path, f"while True: pass\n{GOOD}")
    with pytest.raises(ConfigError, match=r"takes more than 4 s of CPU time .* look for a loop"):
        check_apart(file, cpu_limit_s=4.0)


def test_cpu_time_is_bounded_and_the_clock_has_a_wider_bound(tmp_path: Path) -> None:
    # On a busy machine a part that is right may take much longer by the clock than on an idle one.
    limits = "import resource, signal\nraise ValueError((*resource.getrlimit(resource.RLIMIT_CPU), signal.alarm(0)))"
    with pytest.raises(ConfigError) as refused:
        check_apart(policy(tmp_path, f"{limits}\n{GOOD}"))
    said = re.search(r"ValueError: \((\d+), (\d+), (\d+)\)", str(refused.value))
    assert said is not None, refused.value
    soft_s, hard_s, clock_s = map(int, said.groups())
    assert soft_s == CPU_LIMIT_S < hard_s
    assert 3 * CPU_LIMIT_S < clock_s <= LIMIT_S + GRACE_S


def test_a_process_whose_parent_was_killed_ends_all_the_same(tmp_path: Path) -> None:
    file = policy(tmp_path, f"import time\nwhile True: time.sleep(100_000)\n{GOOD}")
    alone = subprocess.run([sys.executable, "-m", "treadle.live.trial", str(file), "60", "4"], timeout=300)
    assert alone.returncode == -signal.SIGALRM


def test_a_sidecar_refuses_a_changed_part_that_would_end_it(tmp_path: Path) -> None:
    file = policy(tmp_path, GOOD)
    live = LivePolicies(file, PolicyMemory(tmp_path / "state"))
    assert "mine.py:Mine" in live.start().policy.name()
    (tmp_path / "mine.py").write_text(f"import os; os._exit(0)\n{GOOD}")
    with pytest.raises(ConfigError, match="a part ended the process"):
        live.read()
    (tmp_path / "mine.py").write_text(GOOD + "\n")
    assert "mine.py:Mine" in live.read().policy.name()

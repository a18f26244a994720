"""Lines of the plan listener's process: masters that send nonsense leave a bounded number of them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

from treadle.live.plan_child import LINES
from treadle.live.plan_words import line
from treadle.log_lines import LineLimit


def record(text: str, *words: object) -> logging.LogRecord:
    return logging.LogRecord("a", logging.INFO, "f", 1, text, words, None)


def test_lines_are_bounded_and_how_many_were_left_out_is_said() -> None:
    now_s = 0.0
    limit = LineLimit(*LINES, clock_s=lambda: now_s)
    assert sum(limit.filter(record("no. %d", at)) for at in range(1_000)) == LINES.burst
    assert not limit.filter(record("one more"))
    now_s = 1.0 / LINES.per_s
    later = record("no. %d", 7)
    assert limit.filter(later)
    assert later.getMessage() == f"({1_001 - int(LINES.burst)} lines were left out) no. 7"
    assert not limit.filter(record("another one"))


def test_what_the_process_is_led_to_log_is_bounded() -> None:
    code = (
        "import logging; from treadle.live import plan_child\n"
        "plan_child.Child.hear = lambda self, line: logging.getLogger('treadle').warning('refused: %s', line)\n"
        "plan_child.main()"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", code], input=line("x") * 5_000, capture_output=True, env=os.environ
    )
    assert said.returncode == 0
    lines = said.stderr.splitlines()
    # the burst, and a few for the time that it takes
    assert LINES.burst <= len(lines) < 1_000
    assert said.stdout == b""

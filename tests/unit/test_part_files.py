"""Parts from a user's file: found, checked, tried out, and what is said of those that will not do."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.engine.parts import containers
from tests.support.cli import Cli
from tests.support.documents import files_of
from tests.support.files import written
from tests.support.optional import present

from treadle.cli.main import run
from treadle.config.reader import parse_settings
from treadle.engine import Engine
from treadle.engine.testing import small_cluster
from treadle.errors import ConfigError
from treadle.events import ContainerEvent
from treadle.live.live_settings import CPU_LIMIT_S, GRACE_S, LIMIT_S, check_apart, read_live_settings
from treadle.live.policies import LivePolicies
from treadle.live.policy_memory import PolicyMemory
from treadle.model.nodes import NODE
from treadle.model.queues import APPLICATION, QUEUE
from treadle.model.requests import REQUEST
from treadle.policy.user_parts import CONTAINER
from treadle.policy.watchdog import Stopwatch

SHARE = """import numpy as np

class Even:
    def __init__(self, weight: float = 1.0):
        self.weight = weight

    def keys(self, view):
        return self.weight * view.queue_used[:, 0]
"""


def write(folder: Path, part: str, source: str, settings: str = "") -> Path:
    (folder / "my_part.py").write_text(source)
    file = folder / "t.yaml"
    file.write_text(f"policy:\n  {part}:\n    kind: file\n    path: my_part.py\n    class: Even\n{settings}")
    return file


def said(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_live_settings(file)
    (line,) = caught.value.lines()
    return line.removeprefix(f"{file.parent}/")


def test_a_part_is_found_beside_the_yaml_and_made_with_its_parameters(tmp_path: Path) -> None:
    settings = read_live_settings(write(tmp_path, "share", SHARE, "    parameters: {weight: 2.5}\n"))
    assert settings.policy.name() == "gate=all share=my_part.py:Even order=queue fit=packing estimate=none"
    made = settings.policy.share.parameters.make()  # type: ignore[attr-defined]
    assert made.weight == 2.5


def test_another_content_is_another_digest(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    first = read_live_settings(file)
    assert read_live_settings(file).digest == first.digest
    write(tmp_path, "share", SHARE.replace("1.0", "3.0"))
    second = read_live_settings(file)
    assert second.digest != first.digest
    assert second.policy.share.parameters.make().weight == 3.0  # type: ignore[attr-defined]


def test_kept_contents_are_used_instead_of_the_files(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    source = present(read_live_settings(file).source)
    (tmp_path / "my_part.py").unlink()
    again = parse_settings(source.file, source.text, kept=source.part_files, trust_code=True)
    assert again.digest == source.digest
    assert again.policy.share.parameters.make().weight == 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "source", "line"),
    [
        (
            "share",
            SHARE.replace("class Even", "class Evan"),
            "t.yaml:5: policy.share.class: no class 'Even' in my_part.py: it has Evan; did you mean Evan?",
        ),
        ("share", "Even = 3\n", "t.yaml:5: policy.share.class: no class 'Even' in my_part.py: it has none"),
        (
            "fit",
            SHARE,
            "t.yaml:5: policy.fit.class: my_part.py:3: Even has no method scores; write `def scores(self, view)` ",
        ),
        (
            "share",
            "class Even:\n\n    def keys(self):\n        return 1\n",
            "t.yaml:5: policy.share.class: my_part.py:3: keys cannot be called: too many positional arguments; write ",
        ),
        (
            "gate",
            "class Even:\n    async def allows(self, view):\n        return True\n",
            "t.yaml:5: policy.gate.class: my_part.py:2: allows is not a plain function; write `def allows(self, view)`",
        ),
        (
            "estimate",
            "class Even:\n    durations_ms = 3\n",
            "t.yaml:5: policy.estimate.class: my_part.py:1: Even.durations_ms is not a method; write `def durations_ms",
        ),
        ("share", "import numby\n", "t.yaml:4: policy.share.path: my_part.py:1: ModuleNotFoundError: No module named"),
        ("share", "class Even\n", "t.yaml:4: policy.share.path: my_part.py:1: SyntaxError: expected ':'; put it right"),
        ("share", "x = 1\nexit(3)\n", "t.yaml:4: policy.share.path: my_part.py:2: SystemExit: 3; put it right"),
    ],
)  # fmt: skip
def test_an_error_names_files_lines_and_a_remedy(tmp_path: Path, part: str, source: str, line: str) -> None:
    assert said(write(tmp_path, part, source)).startswith(line)


def test_parameters_must_be_what_the_constructor_takes(tmp_path: Path) -> None:
    line = said(write(tmp_path, "share", SHARE, "    parameters: {wait: 2}\n"))
    assert line == (
        "t.yaml:6: policy.share.parameters: my_part.py:3: Even cannot be made from these: "
        "got an unexpected keyword argument 'wait'"
    )


def test_a_file_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    (tmp_path / "my_part.py").chmod(0o666)
    assert "may be written by everybody; take that right away with chmod go-w" in said(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    (tmp_path / "my_part.py").unlink()
    assert said(file).endswith("my_part.py: No such file or directory; check the path and its permissions")


@pytest.mark.parametrize(
    ("part", "body", "problem"),
    [
        ("share", "return view.queue_used", "keys returned shape (3, 2) instead of (3,)"),
        ("share", "return [None] * len(view.queues)", "keys returned an array of object"),
        ("share", "return [float('nan')] * len(view.queues)", "keys returned NaN at index 0"),
        ("share", "view.queues['parent'] = 3", "my_part.py:3: ValueError: assignment destination is read-only"),
        ("share", "return 1 // 0", "my_part.py:3: ZeroDivisionError: integer division or modulo by zero"),
        ("share", "raise SystemExit('bye')", "my_part.py:3: SystemExit: bye"),
        ("order", "return [view.applications['id'].argmin()]", "keys returned shape (1,) instead of (4,)"),
        ("order", "return view.applications['id'] - view.applications['id'].min()", "ValueError: zero-size array"),
        ("fit", "return view.node_free.T", "scores returned shape (2, 8) instead of (8,) or (4, 8)"),
        ("gate", "return view.requests['count']", "allows returned an array of int32"),
        ("gate", "return [True]", "allows returned shape (1,) instead of (4,)"),
        ("estimate", "return [-1.0] * len(view.requests)", "durations_ms returned -1.0"),
    ],
)
def test_a_part_is_tried_out_on_a_small_cluster(tmp_path: Path, part: str, body: str, problem: str) -> None:
    method = {"gate": "allows", "fit": "scores", "estimate": "durations_ms"}.get(part, "keys")
    line = said(write(tmp_path, part, f"class Even:\n    def {method}(self, view):\n        {body}\n"))
    assert line.startswith(f"t.yaml:2: policy.{part}: tried out on a small cluster: ")
    assert problem in line
    assert "Traceback" not in line


def test_a_constructor_that_fails_is_reported(tmp_path: Path) -> None:
    source = (
        "class Even:\n    def __init__(self):\n        open('/not/there')\n    def keys(self, view):\n        pass\n"
    )
    assert "policy.share: tried out on a small cluster: my_part.py:3: FileNotFoundError" in said(
        write(tmp_path, "share", source)
    )


# Parts from files are tried out in a process of their own before a command or a sidecar runs them.

GOOD = "class Mine:\n    def keys(self, view):\n        return view.applications['id'] * 1.0\n"


def policy(folder: Path, part: str) -> Path:
    (folder / "mine.py").write_text(part)
    return written(folder / "treadle.yaml", "policy:\n  order: {kind: file, path: mine.py, class: Mine}\n")


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
def test_a_part_that_ends_badly_is_refused(tmp_path: Path, cli: Cli, first: str, said: str) -> None:
    file = policy(tmp_path, f"{first}\n{GOOD}")
    shown = cli(["policy", "check", str(file)], 2).err
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
    # What compiling the engine has used before does not count.
    values = "*resource.getrlimit(resource.RLIMIT_CPU), signal.alarm(0), math.ceil(time.process_time())"
    limits = f"import math, resource, signal, time\nraise ValueError(({values}))"
    with pytest.raises(ConfigError) as refused:
        check_apart(policy(tmp_path, f"{limits}\n{GOOD}"))
    said = re.search(r"ValueError: \((\d+), (\d+), (\d+), (\d+)\)", str(refused.value))
    assert said is not None, refused.value
    soft_s, hard_s, clock_s, used_s = map(int, said.groups())
    assert CPU_LIMIT_S < soft_s <= CPU_LIMIT_S + used_s
    assert soft_s < hard_s
    assert 2 * CPU_LIMIT_S < clock_s <= LIMIT_S + GRACE_S


def test_a_process_whose_parent_was_killed_ends_all_the_same(tmp_path: Path) -> None:
    file = policy(tmp_path, f"import time\nwhile True: time.sleep(100_000)\n{GOOD}")
    alone = subprocess.run([sys.executable, "-m", "treadle.live.live_settings", str(file), "60", "4"], timeout=300)
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


# A part that a live engine would stop is reported where a policy is checked and where it is simulated.

SLOW = """
import time

class Mine:
    def keys(self, view):
        time.sleep(0.03)
        return view.applications["id"] * 1.0
"""
SCENARIO = """
cluster:
  nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]
workload:
  jobs: [{stages: [{tasks: 2, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}]
"""


def slow_policy(folder: Path, timeout_ms: int) -> Path:
    (folder / "mine.py").write_text(SLOW)
    file = folder / "slow.yaml"
    file.write_text(
        f"policy: {{order: {{kind: file, path: mine.py, class: Mine}}}}\nlimits: {{part_timeout_ms: {timeout_ms}}}\n"
    )
    return file


def test_a_check_refuses_a_part_that_no_live_engine_would_wait_for(tmp_path: Path, cli: Cli) -> None:
    said = " ".join(cli(["policy", "check", str(slow_policy(tmp_path, 10))], 2).err.split())
    assert "slow.yaml:1: policy: tried out on a small cluster: a call to a part took" in said
    assert "stops the parts of a decision after 10 ms (limits.part_timeout_ms)" in said


def test_a_simulation_says_where_a_live_engine_would_have_stopped(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    command = ["simulate", str(tmp_path / "scenario.yaml"), f"--policy={slow_policy(tmp_path, 10)}", "--profile"]
    said = cli(command)
    assert "parts from files took longer than limits.part_timeout_ms (10 ms) in" in " ".join(said.err.split())
    assert "by the clock" in said.out


def test_what_a_stopwatch_counts() -> None:
    now = iter([0.0, 0.2, 1.0, 1.4, 5.0, 5.1])
    watch = Stopwatch(0.5, lambda: next(now))
    watch.begin(0)
    assert watch(lambda: 3) == 3
    assert watch(lambda: 4) == 4
    watch.begin(100)
    watch.begin(2000)
    watch(lambda: 5)
    watch.end()
    times = watch.times
    assert (times.decides, times.too_slow, times.slowest_at_ms) == (2, 1, 0)
    assert times.slowest_s == pytest.approx(0.6)
    assert times.total_s == pytest.approx(0.7)
    assert "in 1 of 2 decisions, 600 ms at 0 s" in times.warning(500)
    assert Stopwatch(0.5).times.warning(500) == ""


# What a part from a file sees: every column is described or the engine's own, and containers have nodes.

PAGE = Path(__file__).parents[2] / "docs" / "policy-api.md"
RECORDS = {"nodes": NODE, "queues": QUEUE, "applications": APPLICATION, "requests": REQUEST}


def described(records: str) -> set[str]:
    """Return the columns that the page describes."""
    (table,) = re.findall(rf"^\| {records} \|.*?\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines())))


def the_engine_s_own(records: str) -> set[str]:
    """Return the columns that the page says to be the engine's own."""
    (line,) = re.findall(rf"^- {records}: (.*)$", PAGE.read_text(), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", line))


@pytest.mark.parametrize("records", RECORDS)
def test_every_column_is_described_or_the_engine_s_own(records: str) -> None:
    public, own = described(records), the_engine_s_own(records)
    assert not public & own
    assert public | own == set(RECORDS[records].names or ())


def test_the_columns_of_containers_are_described() -> None:
    (table,) = re.findall(r"^\| `containers\(application\)`.*?\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(CONTAINER.names or ())


WATCH = """
import numpy as np

class Watch:
    def keys(self, view):
        for number in (0, 1):
            found = view.containers(number)
            print(number, found.tolist(), found.flags.writeable)
        return np.zeros(len(view.applications))
"""


def test_a_part_sees_where_the_containers_of_an_application_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "watch.py").write_text(WATCH)
    text = "policy: {order: {kind: file, path: watch.py, class: Watch, recompute_after: 1000}}"
    engine = Engine(parse_settings(str(tmp_path / "t.yaml"), text, trust_code=True))
    engine.apply(small_cluster(nodes=4))
    begun = containers(
        ContainerEvent.ALLOCATED, (0, 7, 5, 30, 30), (0, 8, 1, 20, 20), (0, 9, 5, 10, 10), (1, 7, 0, 5, 5)
    )
    begun.node[:] = (3, 1, 2, 0)
    engine.apply([begun])
    engine.decide(1000, 1, sequence=1)
    assert engine.failure is None
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "0 [(1, 1, 20), (2, 5, 10), (3, 5, 30)] False"
    assert second == "1 [(0, 0, 5)] False"
    engine.apply([containers(ContainerEvent.COMPLETED, (0, 9, 5, 10, 50))])
    engine.decide(1100, 1, sequence=2)
    assert capsys.readouterr().out.splitlines()[0] == "0 [(1, 1, 20), (3, 5, 30)] False"


def test_the_example_of_the_page_spreads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in files_of(PAGE).items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    assert run(["policy", "check", "spread.yaml"]) == 0
    engine = Engine(
        parse_settings(str(tmp_path / "spread.yaml"), (tmp_path / "spread.yaml").read_text(), trust_code=True)
    )
    engine.apply(small_cluster(nodes=4, leaves=1, applications=1))
    begun = containers(ContainerEvent.ALLOCATED, (0, 1, 0, 0, 0), (0, 2, 0, 0, 0), (0, 3, 0, 0, 0))
    begun.node[:] = (0, 1, 3)
    engine.apply([begun])
    placed = engine.decide(1000, 1, sequence=1)
    assert engine.failure is None
    assert np.asarray(placed.node).tolist() == [2]

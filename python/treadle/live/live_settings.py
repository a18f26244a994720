"""Settings of a live cluster, checked and tried out; parts from files run in a process of their own."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from treadle.config.part_files import FilePart
from treadle.config.parts import PART_KINDS
from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings
from treadle.config.yaml_nodes import Path as YamlPath
from treadle.config.yaml_nodes import YamlDocument
from treadle.engine import Engine
from treadle.errors import ConfigError, Problem
from treadle.policy.user_parts import PartFailure, Watch, unwatched
from treadle.processes import prefer_oom_kill


def read_live_settings(config: Path | None, watch: Watch = unwatched) -> Settings:
    """Return the settings in a file, or the defaults without one.

    Parts from files are tried out on small invented clusters.

    Args:
        config: the file
        watch: runs the code of parts from files, and may stop it

    Raises:
        ConfigError: the file is wrong, or a part from a file is.
        PartStoppedError: reading a part's file took too long.
    """
    if config is None:
        return default_settings()
    settings = watch(lambda: read_settings(config))
    for path, each in ((), settings), *(((("engines", name), own) for name, own in settings.entries.items())):
        if has_file_parts(each):
            _try_out(each, watch, path)
    return settings


def has_file_parts(settings: Settings) -> bool:
    """Is any part of the policy from a user's file?"""
    return any(isinstance(getattr(settings.policy, part).parameters, FilePart) for part in PART_KINDS)


def _try_out(settings: Settings, watch: Watch, where: YamlPath = ()) -> None:
    try:
        Engine.try_out(settings, watch)
    except PartFailure as failure:
        source = settings.source
        document = YamlDocument(source.file, source.text) if source else YamlDocument("", "")
        text = f"tried out on a small cluster: {failure.text}; put it right"
        path = (*where, "policy", failure.part)
        raise ConfigError(document.file, [document.problem(path, text)]) from failure


CPU_LIMIT_S: Final = 60.0
"""Maximum CPU time of reading and trying out. Other processes do not count, nor does compiling the engine before."""

LIMIT_S: Final = 240.0
"""Their bound by the clock, for a part that waits instead of working: less than that of a sidecar's start."""

TRIALS: Final = 3
"""So often a slow part is tried out before it is called slow."""

MEMORY_LIMIT: Final = 4 << 30
"""So many bytes the process that tries a part out may have."""

GRACE_S: Final = 10
"""Time after which the process ends by itself: its parent may have been killed."""


def check_apart(config: Path, *, cpu_limit_s: float = CPU_LIMIT_S, limit_s: float = LIMIT_S) -> str:
    """Read a treadle.yaml and try its parts out in another process; return the policy's name.

    Args:
        config: the file
        cpu_limit_s: maximum CPU time, s
        limit_s: maximum time, s

    Raises:
        ConfigError: the file or a part is wrong, takes too long, or ends the process.
    """
    limits = (str(math.ceil(cpu_limit_s)), str(math.ceil(limit_s) + GRACE_S))
    command = [sys.executable, "-P", "-m", "treadle.live.live_settings", str(config), *limits]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as child:
        try:
            output, _ = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            text = (
                f"a part takes longer than {limit_s:.0f} s by the clock to load and to be tried out, of which "
                f"{_cpu_s(child.pid):.0f} s are CPU time; do less, or look for what it waits for"
            )
            raise _refused(config, text) from None
        finally:
            with suppress(OSError):  # and all processes that the part has started
                os.killpg(child.pid, signal.SIGKILL)
    if child.returncode == -signal.SIGXCPU:
        text = f"a part takes more than {cpu_limit_s:.0f} s of CPU time to load and to be tried out"
        raise _refused(config, f"{text}; do less, or look for a loop")
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        text = f"a part ended the process that tried it out (exit code {child.returncode}); a part must return"
        raise _refused(config, text) from None
    if answer["problems"]:
        raise ConfigError(answer["file"], [Problem(*problem) for problem in answer["problems"]])
    return str(answer["policy"])


def _cpu_s(pid: int) -> float:
    """Return how much CPU time a process has used, in seconds; 0 if it is gone."""
    try:
        return float(sum(psutil.Process(pid).cpu_times()[:2]))
    except psutil.Error:
        return 0.0


def _refused(config: Path, text: str) -> ConfigError:
    return ConfigError(str(config), [Problem(0, "policy", text)])


def _try_here(config: Path) -> dict[str, Any]:
    """Read and try out in this process; return the answer for the parent process."""
    try:
        settings = read_live_settings(config)
    except ConfigError as error:
        return {"file": error.file, "problems": [list(_with_bound(problem)) for problem in error.problems]}
    problems = [_slow(settings, ())]
    problems += [_slow(own, ("engines", name)) for name, own in settings.entries.items()]
    if reasons := [problem for problem in problems if problem]:
        return {"file": str(config), "problems": reasons}
    return {"policy": settings.of_first_engine.policy.name(), "problems": []}


def _with_bound(problem: Problem) -> Problem:
    """Return a problem, with the memory limit if memory ran out."""
    if "MemoryError" not in problem.text:
        return problem
    return problem._replace(text=f"{problem.text}; what is tried out may have {MEMORY_LIMIT >> 30} GiB of memory")


def _slow(settings: Settings, where: tuple[str, ...]) -> list[Any]:
    """Return a problem if a single call to a part takes longer than a live engine allows a whole decide; else nothing.

    The quickest of a few trials counts: the others may have waited for the machine.
    """
    from treadle.policy.watchdog import Stopwatch

    if not has_file_parts(settings):
        return []
    limit_s, quickest_s = settings.limits.part_timeout_ms / 1000, math.inf
    for _ in range(TRIALS):
        stopwatch = Stopwatch(limit_s)
        Engine.try_out(settings, stopwatch)
        quickest_s = min(quickest_s, stopwatch.longest_call_s)
        if quickest_s <= limit_s:
            return []
    text = (
        f"tried out on a small cluster: a call to a part took {1000 * quickest_s:.0f} ms, and a live engine stops the "
        f"parts of a decision after {settings.limits.part_timeout_ms} ms (limits.part_timeout_ms); do less"
    )
    source = settings.source
    document = YamlDocument(source.file, source.text) if source else YamlDocument("", "")
    return list(document.problem((*where, "policy"), text))


def main() -> None:
    """Try out the file that the command line names."""
    # The default action of both signals ends the process at any point.
    cpu_s, limit_s = int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    prefer_oom_kill()
    signal.alarm(limit_s)
    # A new installation compiles now, which takes half a minute of CPU time that is not the part's.
    Engine.try_out(default_settings())
    cpu_s += math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + GRACE_S))
    # Output of parts must not be taken for the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer.write(json.dumps(_try_here(Path(sys.argv[1]))) + "\n")
    answer.flush()
    os._exit(0)  # a thread that a part has left must not hold it


if __name__ == "__main__":
    main()

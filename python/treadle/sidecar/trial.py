"""Trying out a treadle.yaml whose parts come from files, in a process of its own.

Code of a user's may hang where no exception reaches it, or end the process that runs it. Here it does so alone, before
a sidecar or a command runs it: ``python -m treadle.sidecar.trial FILE SECONDS`` reads the settings, tries the parts
out on small invented clusters, and says in one line of JSON what came of it.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from treadle.config.errors import ConfigError, Problem

CHECK_LIMIT_S: Final = 60.0
"""Reading and trying out may take so long, the start of a Python with the engine's compiled code included."""


GRACE_S: Final = 10
"""So much later the process ends by itself, whoever had it try something out: that one may have been killed."""


def check_apart(config: Path, limit_s: float = CHECK_LIMIT_S) -> str:
    """Read a treadle.yaml and try its parts out in another process; return the policy's name.

    Raises:
        ConfigError: the file or a part is wrong, takes too long, or ends the process.
    """
    command = [sys.executable, "-m", "treadle.sidecar.trial", str(config), str(math.ceil(limit_s) + GRACE_S)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as child:
        try:
            told, _ = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            text = f"a part takes longer than {limit_s:.0f} s to load and to be tried out; do less, or look for a loop"
            raise _refused(config, text) from None
        finally:
            with suppress(OSError):  # and whatever the part has started
                os.killpg(child.pid, signal.SIGKILL)
    try:
        answer: dict[str, Any] = json.loads(told)
    except ValueError:
        text = f"a part ended the process that tried it out (exit code {child.returncode}); a part must return"
        raise _refused(config, text) from None
    if answer["problems"]:
        raise ConfigError(answer["file"], [Problem(*problem) for problem in answer["problems"]])
    return str(answer["policy"])


def _refused(config: Path, text: str) -> ConfigError:
    return ConfigError(str(config), [Problem(0, "policy", text)])


def _try_here(config: Path) -> dict[str, Any]:
    """Read and try out in this process; return what to say."""
    from treadle.sidecar.live import read_live_settings

    try:
        settings = read_live_settings(config)
    except ConfigError as error:
        return {"file": error.file, "problems": [list(problem) for problem in error.problems]}
    return {"policy": settings.policy.name(), "problems": []}


def main() -> None:
    """Try out the file that the command line names."""
    signal.alarm(int(sys.argv[2]))  # its default action ends the process, whatever that is doing
    # What parts print must not be taken for the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer.write(json.dumps(_try_here(Path(sys.argv[1]))) + "\n")
    answer.flush()
    os._exit(0)  # a thread that a part has left must not hold it


if __name__ == "__main__":
    main()

"""Making a running ResourceManager take over a treadle.yaml."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from treadle.cli._jmx import read_bean
from treadle.errors import UserError

CONFIG_KEY: Final = "yarn.scheduler.treadle.config.file"
WAIT_S: Final = 30.0
SAME_S: Final = 3.0

_TIMEOUT_S: Final = 10.0
_REFRESH_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2


def configured_file(rm: str, ca: Path | None = None) -> Path:
    """Ask a ResourceManager which treadle.yaml its engine reads.

    Raises:
        UserError: it does not say.
    """
    import requests

    from treadle.yarn.web import open_session, why_failed, why_refused

    url = rm if "://" in rm else f"http://{rm}"
    try:
        with open_session(ca) as session:
            answer = session.get(
                f"{url.rstrip('/')}/conf",
                params={"name": CONFIG_KEY},
                headers={"Accept": "application/json"},
                timeout=_TIMEOUT_S,
            )
        if answer.status_code == requests.codes.unauthorized:
            raise UserError(f"{url}/conf: {why_refused(answer)}")
        value = str(json.loads(answer.text)["property"]["value"]) if answer.ok else ""
    except requests.exceptions.SSLError as error:
        raise UserError(f"{url}/conf: {why_failed(error)}") from error
    except (requests.RequestException, ValueError, KeyError, TypeError):
        value = ""
    if not value:
        raise UserError(
            f"{url}/conf does not say what {CONFIG_KEY} is; name the engine's treadle.yaml with --config, "
            "or set that key in yarn-site.xml and restart the ResourceManager"
        )
    return Path(value)


def refresh_command(given: str | None) -> str | None:
    """Return the `yarn` command: the one given, or the one in the path or of HADOOP_HOME; None if there is none."""
    if given is not None:
        return given
    homes = [os.environ.get(name) for name in ("HADOOP_YARN_HOME", "HADOOP_HOME")]
    return shutil.which("yarn") or next(
        filter(None, (shutil.which(f"{home}/bin/yarn") for home in homes if home)), None
    )


def refresh(yarn: str) -> None:
    """Run ``yarn rmadmin -refreshQueues``.

    Raises:
        UserError: it failed; the text has what it said last.
    """
    try:
        ended = subprocess.run(
            [yarn, "rmadmin", "-refreshQueues"], capture_output=True, text=True, timeout=_REFRESH_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{yarn} rmadmin -refreshQueues: {error}") from error
    if ended.returncode != 0:
        said = [line for line in (ended.stderr + ended.stdout).splitlines() if line.strip()]
        raise UserError(f"{yarn} rmadmin -refreshQueues failed: {said[-1] if said else 'it said nothing'}")


def wait_until_runs(
    rm: str,
    policy: str,
    earlier: dict[str, Any],
    pause: Callable[[float], None] = time.sleep,
    ca: Path | None = None,
) -> None:
    """Wait until a ResourceManager's engine runs a policy.

    Args:
        rm: its address
        policy: the policy's name
        earlier: the bean before the refresh; where it has the same name already, a refusal is awaited for a while
        pause: waits so many seconds
        ca: certificates to trust over https

    Raises:
        UserError: it does not run within the time, or is refused; the text says why.
    """
    said, same = earlier.get("tag.LastError"), earlier.get("tag.Policy") == policy
    for look in range(int(WAIT_S / _POLL_S)):
        bean = read_bean(rm, "Treadle", ca)
        error, runs = bean.get("tag.LastError") or "", bean.get("tag.Policy")
        # What went wrong last stays there; each refusal has a text of its own.
        if error != said and re.search(r"settings \d+ refused", error):
            raise UserError(f"the engine refuses it: {error}")
        if runs == policy and (not same or look * _POLL_S >= SAME_S):
            return
        pause(_POLL_S)
    raise UserError(f"the engine does not run it: {runs or 'nothing'} runs; {error or 'no error is told'}")

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
from treadle.yarn.treadle_beans import policy_in

CONFIG_KEY: Final = "yarn.scheduler.treadle.config.file"
SIDECAR_KEY: Final = "yarn.scheduler.treadle.sidecar"
WAIT_S: Final = 30.0
SAME_S: Final = 3.0

_TIMEOUT_S: Final = 10.0
_REFRESH_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2
_NAME: Final = "refreshQueues: "


def configured_file(rm: str, ca: Path | None = None) -> Path:
    """Ask a ResourceManager which treadle.yaml its engine reads.

    Raises:
        UserError: it does not say.
    """
    value = _property(rm, CONFIG_KEY, ca)
    if not value:
        raise UserError(
            f"{address_of(rm)}/conf does not say what {CONFIG_KEY} is; name the engine's treadle.yaml with --config, "
            "or set that key in yarn-site.xml and restart the ResourceManager"
        )
    return Path(value)


def refuse_another_file(rm: str, target: Path, ca: Path | None = None) -> None:
    """Refuse a treadle.yaml that a managed sidecar does not read: to change it would change nothing.

    Raises:
        UserError: it reads another one, or none, or the ResourceManager does not answer.
    """
    if _property(rm, SIDECAR_KEY, ca) == "external":
        return  # who starts that names its file
    named = _property(rm, CONFIG_KEY, ca)
    if named and Path(named).resolve() == target.resolve():
        return
    reads = f"reads {named}, not {target}" if named else f"reads no treadle.yaml, so not {target}"
    raise UserError(
        f"the engine of the ResourceManager at {address_of(rm)} {reads}; nothing was changed. Leave --config out, or "
        f"set {CONFIG_KEY} in yarn-site.xml and restart the ResourceManager; --no-refresh changes the file alone"
    )


def refuse_off(bean: dict[str, Any]) -> None:
    """Refuse to wait for an engine where none runs.

    Raises:
        UserError: the mode is off.
    """
    if bean.get("Mode") == "off":
        raise UserError(
            "the mode is off, so that no engine runs which could take a policy over; set yarn.scheduler.treadle.mode "
            "and run `yarn rmadmin -refreshQueues` first, or change the file alone with --no-refresh"
        )


def _property(rm: str, key: str, ca: Path | None) -> str:
    """Return a property of a ResourceManager's configuration; empty if it is not set.

    Raises:
        UserError: the page does not answer, or refuses.
    """
    import requests

    from treadle.yarn.pages import content_of
    from treadle.yarn.web import open_session, why_failed, why_refused

    page = f"{address_of(rm)}/conf"
    try:
        with (
            open_session(ca) as session,
            session.get(
                page, params={"name": key}, headers={"Accept": "application/json"}, timeout=_TIMEOUT_S, stream=True
            ) as answer,
        ):
            if answer.status_code == requests.codes.not_found:
                return ""
            if not answer.ok:
                name = "the engine's treadle.yaml may also be named with --config" if key == CONFIG_KEY else ""
                raise UserError("; ".join(filter(None, (f"{page}: {why_refused(answer)}", name))))
            return str(json.loads(content_of(answer, page))["property"]["value"])
    except requests.RequestException as error:
        tls = isinstance(error, requests.exceptions.SSLError)
        question = "" if tls else "; is a ResourceManager there? (--rm)"
        raise UserError(f"{page}: {why_failed(error)}{question}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{page} is no ResourceManager's page; check --rm") from error


def address_of(rm: str) -> str:
    """Return the address of a ResourceManager's web pages, without a slash at its end."""
    return (rm if "://" in rm else f"http://{rm}").rstrip("/")


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
        UserError: it failed; the text has why.
    """
    try:
        ended = subprocess.run(
            [yarn, "rmadmin", "-refreshQueues"], capture_output=True, text=True, timeout=_REFRESH_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{yarn} rmadmin -refreshQueues: {error}") from error
    if ended.returncode != 0:
        raise UserError(f"{yarn} rmadmin -refreshQueues failed: {_reason_in(ended.stderr + ended.stdout)}")


def _reason_in(said: str) -> str:
    """Return why a refresh was refused: what rmadmin says under its command's name, without logs and stack traces."""
    lines = [line for line in said.splitlines() if line.strip()]
    named = [line.removeprefix(_NAME) for line in lines if line.startswith(_NAME)]
    plain = [line for line in lines if not line.startswith(("\t", "Caused by:"))]
    return next(iter([*named, *plain[-1:], *lines[-1:]]), "it said nothing").strip()


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
        pause: waits this many seconds
        ca: certificates to trust over https

    Raises:
        UserError: it does not run within the time, or is refused, or the mode is off; the text says why.
    """
    said, same = earlier.get("LastError"), policy_in(earlier) == policy
    for look in range(int(WAIT_S / _POLL_S)):
        bean = read_bean(rm, ca)
        refuse_off(bean)
        error, runs = bean.get("LastError") or "", policy_in(bean)
        # What went wrong last stays there; each refusal has a text of its own.
        if error != said and re.search(r"settings \d+ refused", error):
            raise UserError(f"the engine refuses it: {error}")
        if runs != policy and _failed(error, said or ""):
            raise UserError(f"the engine took it over, and it failed at once: {error}")
        if runs == policy and (not same or look * _POLL_S >= SAME_S):
            return
        pause(_POLL_S)
    raise UserError(f"the engine does not run it: {runs or 'nothing'} runs; {error or 'no error is reported'}")


def _failed(error: str, earlier: str) -> bool:
    """Return whether an error says that a part failed, so that another policy runs, and an earlier one did not."""
    news = set(error.split("; ")) - set(earlier.split("; "))
    return error.endswith(" runs instead") and any(re.search(r"\bpolicy\.\w+ \(", each) for each in news)

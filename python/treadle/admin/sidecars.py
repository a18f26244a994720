"""Which sidecars run on this host; ends them, and waits for those that their ResourceManager or systemd starts.

The user that starts a process chooses its words. So they only distinguish processes of trusted users: nothing in them
is run, or taken for a path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil

from treadle.admin.plan import sidecar_users
from treadle.admin.policy_use import refuse_off
from treadle.config.trust import user_name
from treadle.errors import UserError
from treadle.yarn.pages import read_bean

_KINDS: Final = {"--managed", "--external"}


def sidecars(users: Collection[int] | None = None) -> list[psutil.Process]:
    """Return the processes of sidecars that this user may look at.

    Args:
        users: only processes count whose real and effective user is one of these; None: all count
    """
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            uids = process.uids()
            if (users is None or {uids.real, uids.effective} <= set(users)) and _is_sidecar(process):
                processes.append(process)
    return processes


def is_of(sidecar: psutil.Process, urls: Collection[str]) -> bool:
    """Is a sidecar external, or does a process above it serve the pages at one of these addresses?"""
    ports = {urlsplit(url if "://" in url else f"http://{url}").port for url in urls}
    with suppress(psutil.Error, OSError):
        return "--external" in sidecar.cmdline() or any(_listens(each, ports) for each in sidecar.parents())
    return False


def _is_sidecar(process: psutil.Process) -> bool:
    """Look at the words, and at which program runs: `sudo` and the like run as root with words of any user."""
    words = process.cmdline()
    if "sidecar" not in words or _KINDS.isdisjoint(words):
        return False
    return Path(f"/proc/{process.pid}/exe").readlink().name.startswith("python")


def _listens(process: psutil.Process, ports: Collection[int | None]) -> bool:
    with suppress(psutil.Error, OSError):
        connections = process.net_connections("tcp")
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port in ports for each in connections)
    return False


END_S: Final = 10.0
"""Time from SIGTERM to SIGKILL for a process that has not ended: only the end of its log is lost."""

_POLL_S: Final = 0.2


def restart_sidecars(rm: str, ca: Path | None, pid: int | None, wait_s: float, say: Callable[[str], None]) -> None:
    """End the sidecars of this host, or the one with a process id, and wait until engines schedule again.

    Raises:
        UserError: there is none, or more than one ResourceManager's, or none comes back in time.
    """
    before = read_bean(rm, ca)
    refuse_off(before)
    chosen = _chosen(pid, rm)
    names = ", ".join(str(process.pid) for process in chosen)
    for process in chosen:
        _end(process)
    say(f"ended: {names}; waiting for the next one")
    began, bean = time.monotonic(), dict[str, Any]()
    while time.monotonic() - began < wait_s:
        bean = read_bean(rm, ca)
        # An engine that has just come gets a snapshot, and then the lease.
        if bean.get("LeaseHeld") == 1 and int(bean.get("Snapshots", 0)) >= int(before.get("Snapshots", 0)) + len(
            chosen
        ):
            say(f"another sidecar answers, after {time.monotonic() - began:.1f} s; it holds the lease")
            return
        time.sleep(_POLL_S)
    raise UserError(
        f"no sidecar holds the lease {wait_s:g} s after the end of {names}: "
        f"{bean.get('LastError') or 'no error is reported'}; an external one must be started again by systemd "
        "(systemctl status treadle-sidecar) or by you"
    )


def _chosen(pid: int | None, rm: str) -> list[psutil.Process]:
    if pid is not None:
        every = sidecars()
        named = [process for process in every if process.pid == pid]
        if not named:
            raise UserError(f"--pid {pid} is not a sidecar that this user may end; there are: {_listed(every)}")
        return named
    users = sidecar_users()
    processes = sidecars(users)
    if not processes:
        names = " or ".join(map(user_name, sorted(users)))
        raise UserError(
            f"no sidecar of {names} runs on this host that this user may see; run this on the active "
            "ResourceManager's host as the sidecar's user, or name the process with --pid. A managed one that has "
            "ended is started again by its ResourceManager"
        )
    own = [process for process in processes if is_of(process, [rm])]
    if not own:
        raise UserError(
            f"what runs here are sidecars of another ResourceManager than that at {rm}: {_listed(processes)}; name the "
            "right one with --rm, or a sidecar with --pid"
        )
    if len({process.ppid() for process in own if "--managed" in process.cmdline()}) > 1:
        raise UserError(f"sidecars of several ResourceManagers run here; name one with --pid: {_listed(own)}")
    return own


def _listed(processes: Sequence[psutil.Process]) -> str:
    return ", ".join(f"{process.pid} (of {process.username()})" for process in processes) or "none"


def _end(process: psutil.Process) -> None:
    try:
        process.terminate()
        process.wait(END_S)
    except psutil.TimeoutExpired:
        process.kill()
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise UserError(f"this user may not end process {process.pid}; run this as root, or as its user") from error

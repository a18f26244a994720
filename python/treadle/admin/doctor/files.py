"""Checks of files: who owns what the sidecar follows and runs, and who may read its secret."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from treadle.admin.doctor.checks import Facts, Finding, mode_of
from treadle.admin.doctor.hadoop import PREFIX
from treadle.config.state_folders import EXPLAIN_SOCKET, state_folders
from treadle.config.trust import reason_against, user_name


def owners(facts: Facts) -> Iterator[Finding]:
    """Look whether anybody else could change what runs as the sidecar's user."""
    command = facts.setting(f"{PREFIX}python.command")
    looked = 0
    for path in (facts.config, Path(command) if command.startswith("/") else None):
        if path is None or not path.exists():
            continue
        looked += 1
        try:
            reason = reason_against(path, {0, facts.uid})
        except OSError as error:
            reason = f"{path}: {error.strerror}"
        if reason:
            yield Finding("fail", reason, f"any user who may write there can act as {facts.user} on this host")
        elif not _readable(path, facts.uid):
            yield Finding("fail", f"{facts.user} may not read {path}, mode {mode_of(path)}", f"chmod o+r {path}")
        else:
            yield Finding("ok", f"nobody but {' and '.join(sorted({'root', facts.user}))} may change {path}")
    if not looked:
        yield Finding("skipped", "neither a treadle.yaml nor a command is set, or --hadoop-conf is not given")


def connection(facts: Facts) -> Iterator[Finding]:
    """Look who may read the secret of an external sidecar, and what its managed one keeps."""
    yield from _state(facts)
    if facts.setting(f"{PREFIX}sidecar") != "external":
        yield Finding("ok", "the sidecar is managed: its secret is in no file")
        return
    path = Path(facts.setting(f"{PREFIX}sidecar.connection-file"))
    try:
        found, folder = path.lstat(), path.parent.stat()
    except OSError as error:
        yield Finding("warn", f"{path}: {error.strerror}: no sidecar has written it", "treadle sidecar restart")
        return
    shared = bool(facts.setting(f"{PREFIX}sidecar.user"))
    if not stat.S_ISREG(found.st_mode):
        yield Finding("fail", f"{path} is no regular file", "name another one in both places")
    elif found.st_mode & (0o037 if shared else 0o077):
        yield Finding(
            "fail",
            f"{path} has mode {mode_of(path)}: others may read the secret",
            f"it must be {'0640' if shared else '0600'}",
        )
    elif found.st_uid != facts.uid:
        yield Finding(
            "fail",
            f"{path} belongs to {user_name(found.st_uid)}, not to {facts.user}",
            f"run the sidecar as {facts.user}, or name its user with --user",
        )
    elif folder.st_mode & 0o022:
        yield Finding("fail", f"{path.parent}: others may put another file there", f"chmod go-w {path.parent}")
    elif folder.st_uid not in {0, facts.uid}:
        yield Finding(
            "warn" if shared else "fail",
            f"{path.parent} belongs to {user_name(folder.st_uid)}, who may put another file there",
            f"give it to root or {facts.user}" + (", or to the ResourceManager's user" if shared else ""),
        )
    else:
        yield Finding("ok", f"{path} has mode {mode_of(path)}, for {facts.user}")


def _state(facts: Facts) -> Iterator[Finding]:
    if facts.config is None:
        return
    folder = state_folders(facts.config, "", ())[0]
    if folder.is_dir():
        reason = reason_against(folder, {0, facts.uid})
        if reason:
            yield Finding("warn", reason, "the sidecar does not believe what it remembers there")
        socket = folder / EXPLAIN_SOCKET
        if socket.exists() and socket.stat().st_mode & 0o077:
            yield Finding("fail", f"{socket} has mode {mode_of(socket)}", f"chmod 600 {socket}")


def _readable(path: Path, uid: int) -> bool:
    found = path.stat()
    return uid in (0, -1) or bool(found.st_mode & (0o400 if found.st_uid == uid else 0o004))

"""The folder for compiled kernels: only root and this process's user may write to it.

numba executes the files in its folder, so each candidate is checked before use: next to the package, then in the user's
cache, else a private folder that is removed with the process. The environment has no influence on a sidecar. Other
processes use the folder in `NUMBA_CACHE_DIR`, which a sidecar sets for its children.
"""

from __future__ import annotations

import atexit
import logging
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Final

from treadle.config.trust import reason_against, user_name
from treadle.errors import UserError

_log = logging.getLogger(__name__)

VARIABLE: Final = "NUMBA_CACHE_DIR"
_PACKAGE: Final = Path(__file__).resolve().parent.parent

MayWrite = Callable[[Path], bool]
"""Returns whether a user may write to an existing folder."""


def places(uid: int) -> list[Path]:
    """Return the default folders for a user's compiled code, the preferred one first.

    The home directory comes from the user database: `HOME` may name another user's folder.
    """
    folders = [_PACKAGE / "__pycache__"]
    try:
        home = Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        return folders
    return [*folders, home / ".cache" / "treadle"] if home.is_absolute() else folders


def reason_against_folder(folder: Path, uid: int, may_write: MayWrite) -> str:
    """Return why a user's compiled code cannot be stored in a folder, which may be missing; empty if it can.

    Args:
        folder: the folder; if it is missing, its nearest existing parent is checked
        uid: the user
        may_write: returns whether that user may write to a folder
    """
    try:
        at = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
        reason = reason_against(at, {0, uid})
        return reason or (
            "" if at.is_dir() and may_write(at) else f"{at} is not a folder that {user_name(uid)} may write to"
        )
    except OSError as error:
        return f"{folder}: {error.strerror}"


def reason_against_chosen(folder: Path, uid: int, may_write: MayWrite) -> str:
    """Return why a user's sidecar refuses the setting ``kernels.folder``, with the remedy; empty if it accepts it."""
    if not os.path.lexists(folder):
        return f"{folder} is missing; make it as the sidecar's user: mkdir -p -m 700 {folder}"
    return reason_against_folder(folder, uid, may_write)


def lasting_folder(uid: int, may_write: MayWrite, among: Iterable[Path] | None = None) -> tuple[Path | None, str]:
    """Return the first safe one of `places`, or None and why there is none."""
    reasons = []
    for place in places(uid) if among is None else among:
        reason = reason_against_folder(place, uid, may_write)
        if not reason:
            return place, ""
        reasons.append(reason)
    return None, "; ".join(reasons)


def may_write_here(folder: Path) -> bool:
    """Return whether this process may write to a folder."""
    return os.access(folder, os.W_OK | os.X_OK)


class KernelCache:
    """The cache folder of this process: the configured one, a safe persistent one, or a private one."""

    def __init__(
        self, chosen: str = "", environment: MutableMapping[str, str] = os.environ, among: Iterable[Path] | None = None
    ) -> None:
        """Choose the folder; must run before numba is imported. A private folder is created now.

        Args:
            chosen: a configured folder, already checked; empty: none
            environment: the process's environment
            among: candidates instead of `places`

        Raises:
            UserError: no folder is safe, and no private one can be created.
        """
        self._private: Path | None = None
        self.why_private = ""
        """Why no persistent folder is used; empty if one is."""
        folder: Path | None = Path(chosen)
        if not chosen:
            folder, self.why_private = lasting_folder(os.geteuid(), may_write_here, among)
        if folder is None:
            folder = self._private = _private_folder(self.why_private)
        environment[VARIABLE] = str(folder)

    def remove(self) -> None:
        """Delete a private folder."""
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)


def kept_in(name: str) -> str:
    """Return this process's folder for a set of compiled code; create it with access for its owner only.

    Raises:
        UserError: another user could have written to it, or this one cannot.
    """
    if not os.environ.get(VARIABLE):
        cache = KernelCache()
        atexit.register(cache.remove)
        if cache.why_private:
            _log.warning("compiled code is not kept, each start compiles: %s", cache.why_private)
    folder = Path(os.environ[VARIABLE]).absolute() / name
    try:
        for above in reversed(folder.parents):
            if not above.is_dir():
                above.mkdir(mode=0o755, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
    else:
        reason = reason_against_folder(folder, os.geteuid(), may_write_here)
    if reason:
        raise UserError(f"compiled code cannot be kept: {reason}; or name another folder in {VARIABLE}")
    return str(folder)


def _private_folder(why: str) -> Path:
    """Create a folder with an unpredictable name and access for this user only."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="treadle-kernels-"))
    except OSError as error:
        raise UserError(f"compiled code cannot be kept: {why}; no temporary folder: {error.strerror}") from error
    reason = reason_against_folder(folder, os.geteuid(), may_write_here)
    if reason:
        folder.rmdir()
        raise UserError(f"compiled code cannot be kept: {why}; {reason}, or set TMPDIR to another folder")
    return folder

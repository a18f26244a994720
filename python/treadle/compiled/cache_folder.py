"""Where compiled kernels are kept: in a folder that only root and this process's user could have written to.

numba runs what it finds in its folder. So each folder is checked before use: kernels lie beside the package or in the
user's cache, whichever is safe first, or in a private folder that goes with the process. The environment chooses
nothing for a sidecar. Other processes take the folder in `NUMBA_CACHE_DIR`, which a sidecar sets for its children.
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
"""May a user write to a folder that exists?"""


def places(uid: int) -> list[Path]:
    """Return the folders that a user's compiled code is kept in if none is chosen, the preferred one first.

    The home is that of the user database: `HOME` may name a folder of another user.
    """
    folders = [_PACKAGE / "__pycache__"]
    try:
        home = Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        return folders
    return [*folders, home / ".cache" / "treadle"] if home.is_absolute() else folders


def reason_against_folder(folder: Path, uid: int, may_write: MayWrite) -> str:
    """Return why a user's compiled code cannot be kept in a folder, which may be missing; empty if it can.

    Args:
        folder: the folder; where it is missing, the nearest folder above it that exists is checked
        uid: the user
        may_write: whether that user may write to a folder
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
    """Return why a sidecar of a user refuses the folder in ``kernels.folder``, and the remedy; empty if it does not."""
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
    """May this process write to a folder?"""
    return os.access(folder, os.W_OK | os.X_OK)


class KernelCache:
    """The folder of this process: the chosen one, a safe one that lasts, or a private one."""

    def __init__(
        self,
        chosen: str = "",
        environment: MutableMapping[str, str] = os.environ,
        among: Iterable[Path] | None = None,
    ) -> None:
        """Choose the folder; numba must not have been imported yet. A private one is made now.

        Args:
            chosen: a folder that was checked already; empty: none
            environment: the process's
            among: folders to choose from in place of `places`

        Raises:
            UserError: no folder is safe, and no private one can be made.
        """
        self._private: Path | None = None
        self.why_private = ""
        """Why no folder lasts; empty if one does."""
        folder: Path | None = Path(chosen)
        if not chosen:
            folder, self.why_private = lasting_folder(os.geteuid(), may_write_here, among)
        if folder is None:
            folder = self._private = _private_folder(self.why_private)
        environment[VARIABLE] = str(folder)

    def remove(self) -> None:
        """Remove a private folder and all in it."""
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)


def kept_in(name: str) -> str:
    """Return this process's folder for compiled code of a name; it is made, for its owner alone, where it is missing.

    Raises:
        UserError: another user could have put code there, or this one may not write to it.
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
    """Make a folder with a name that nobody could know, for this user alone."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="treadle-kernels-"))
    except OSError as error:
        raise UserError(f"compiled code cannot be kept: {why}; no temporary folder: {error.strerror}") from error
    reason = reason_against_folder(folder, os.geteuid(), may_write_here)
    if reason:
        folder.rmdir()
        raise UserError(f"compiled code cannot be kept: {why}; {reason}, or set TMPDIR to another folder")
    return folder

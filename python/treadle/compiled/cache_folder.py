"""Where compiled kernels are kept.

numba keeps them next to the package, or under the user's home. An administrator installs the package as one user and
runs the ResourceManager as another, perhaps with no home: then numba refuses to work, unless a folder is set.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

_VARIABLE: Final = "NUMBA_CACHE_DIR"
_PACKAGE: Final = Path(__file__).resolve().parent.parent


class KernelCache:
    """The folder for compiled kernels: the one chosen, or one of this process's own if numba would find none."""

    def __init__(
        self, package: Path = _PACKAGE, environment: MutableMapping[str, str] = os.environ, chosen: str = ""
    ) -> None:
        """Make the folder if there must be one; numba must not have been imported yet.

        Args:
            package: where numba keeps kernels if it may write there
            environment: the process's
            chosen: a folder that lasts, where kernels are kept whatever else could be written; empty: none
        """
        self._folder: str | None = None
        if chosen:
            environment[_VARIABLE] = chosen
            return
        home = environment.get("XDG_CACHE_HOME") or environment.get("HOME") or ""
        if _VARIABLE in environment or _writable(package) or _writable(Path(home)):
            return
        # Not a fixed name: whatever others put there would be run.
        self._folder = tempfile.mkdtemp(prefix="treadle-kernels-")
        environment[_VARIABLE] = self._folder

    @property
    def folder(self) -> str | None:
        """The folder that is gone with this process, None where one lasts."""
        return self._folder

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _writable(folder: Path) -> bool:
    return folder.is_absolute() and folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

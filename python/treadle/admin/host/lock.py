"""One installation below a prefix at a time, and what one that was killed left there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle.files import hold

STAGING: Final = ".new-"
"""What the names of folders begin with in which an environment is made."""

_LOCK: Final = ".lock"


@contextmanager
def locked(prefix: Path) -> Iterator[None]:
    """Keep a second installation below a prefix, or its end, out.

    Raises:
        UserError: one is under way.
    """
    path = prefix / _LOCK
    with path.open("a") as file:
        if not hold(file.fileno()):
            raise UserError(f"another installation below {prefix} is under way, or its end; wait for it")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

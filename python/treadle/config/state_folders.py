"""Where a sidecar keeps its state, and where commands look for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

EXPLAIN_SOCKET: Final = "explain.sock"
"""The name, in the state's folder, of the socket at which `treadle explain` asks."""


def bases_of_user(environment: Mapping[str, str]) -> list[str]:
    """Return where a user keeps the state of programs, by the environment: what is set, the likeliest first."""
    home = environment.get("HOME", "")
    return list(filter(None, (environment.get("XDG_STATE_HOME", ""), f"{home}/.local/state" if home else "")))


def state_folders(config: Path, engine: str, bases: Iterable[str]) -> list[Path]:
    """Return where the state of a sidecar with a treadle.yaml may lie, the likeliest first.

    Args:
        config: the treadle.yaml
        engine: of several engines the name of one that is not the first; else empty
        bases: folders that are used where the file's own may not be written to; those without an absolute path are left
            out
    """
    config = config.absolute()
    if engine:
        config = config.with_name(f"{config.name}.{engine}")
    name = f"{config.name}-{hashlib.sha256(str(config).encode()).hexdigest()[:12]}"
    kept = [Path(base) / "treadle" / name for base in bases if Path(base).is_absolute()]
    return [config.parent / f".{config.name}.state", *kept]

"""The engine that a live cluster gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings
from treadle.config.writer import default_yaml
from treadle.engine import Engine
from treadle.sidecar.session import Session


def read_live_settings(config: Path | None) -> Settings:
    """Return the settings in a file, or the defaults without one.

    Raises:
        ConfigError: the file is wrong.
    """
    return default_settings() if config is None else read_settings(config)


def live_defaults() -> str:
    """Return a treadle.yaml with every default of every part that there is."""
    return default_yaml()


def live_session(read: Callable[[], Settings], reply_max_bytes: int, clock_ns: Callable[[], int]) -> Session:
    """Return a session with Treadle's engine.

    Raises:
        ConfigError: there are no settings to start with.
    """
    return Session(Engine, read, reply_max_bytes=reply_max_bytes, clock_ns=clock_ns)

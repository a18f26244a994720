"""What one of several engines follows: its entry of `engines:` in treadle.yaml, in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from treadle.config.errors import ConfigError, Problem
from treadle.config.settings import Listener, Profiles, Settings


def own_settings(settings: Settings, engine: str, file: str) -> Settings:
    """Return what an engine follows of the settings of a file.

    The first engine, whose name is not said, keeps the roster. Others have none,
    no plan listener, and a store of profiles of their own.

    Args:
        settings: all of the file
        engine: the engine's name, empty for the first or only one
        file: what errors call the file

    Raises:
        ConfigError: there is no such engine.
    """
    names = [each.name for each in settings.engines]
    if not engine:
        if not names:
            return settings
        own = settings.for_engine(names[0])
        return replace(own, engines=settings.engines)
    if engine not in names[1:]:
        known = ", ".join(names[1:]) or "none"
        text = f"has no engine {engine!r} besides its first; there is: {known}"
        raise ConfigError(file, [Problem(0, "engines", text)])
    own = settings.for_engine(engine)
    return replace(own, listener=Listener(), profiles=_own_store(own.profiles, engine))


def _own_store(profiles: Profiles, engine: str) -> Profiles:
    if not profiles.store or "://" in profiles.store:
        return profiles
    path = Path(profiles.store)
    return profiles.model_copy(update={"store": str(path.with_name(f"{path.stem}-{engine}{path.suffix}"))})

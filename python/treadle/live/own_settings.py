"""What one of several engines follows: its entry of `engines:` in treadle.yaml, in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from treadle.config.errors import ConfigError, Problem
from treadle.config.settings import Profiles, Settings


def own_settings(settings: Settings, engine: str, file: str) -> Settings:
    """Return what an engine follows of the settings of a file. Those that are not the first have a store of their own.

    Args:
        settings: all of the file
        engine: the engine's name, empty for the only one
        file: what errors call the file

    Raises:
        ConfigError: there is no such engine.
    """
    names = [each.name for each in settings.engines]
    if not engine and not names:
        return settings
    if not (engine and names):
        text = "names several engines now" if names else "names no engines any more"
        raise ConfigError(file, [Problem(0, "engines", f"{text}, which `treadle sidecar restart` follows")])
    if engine not in names:
        text = f"has no engine {engine!r}; there is: {', '.join(names)}"
        raise ConfigError(file, [Problem(0, "engines", text)])
    own = settings.for_engine(engine)
    return own if engine == names[0] else replace(own, profiles=_own_store(own.profiles, engine))


def _own_store(profiles: Profiles, engine: str) -> Profiles:
    if not profiles.store or "://" in profiles.store:
        return profiles
    path = Path(profiles.store)
    return profiles.model_copy(update={"store": str(path.with_name(f"{path.stem}-{engine}{path.suffix}"))})

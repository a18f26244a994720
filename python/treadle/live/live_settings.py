"""Settings as a live cluster gets them: checked and tried out."""

from __future__ import annotations

from pathlib import Path as FilePath

from treadle.config.errors import ConfigError
from treadle.config.part_files import FilePart
from treadle.config.parts import QUESTIONS
from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings
from treadle.config.text import default_yaml
from treadle.config.yaml_nodes import Path, YamlDocument
from treadle.engine import Engine
from treadle.policy.user_parts import PartFailure, Watch, unwatched


def read_live_settings(config: FilePath | None, watch: Watch = unwatched) -> Settings:
    """Return the settings in a file, or the defaults without one.

    Parts from files are tried out on small invented clusters.

    Args:
        config: the file
        watch: runs the code of parts from files, and may stop it

    Raises:
        ConfigError: the file is wrong, or a part from a file is.
        PartStoppedError: reading a part's file took too long.
    """
    if config is None:
        return default_settings()
    settings = watch(lambda: read_settings(config))
    for path, each in ((), settings), *(((("engines", name), own) for name, own in settings.entries.items())):
        if has_file_parts(each):
            _try_out(each, watch, path)
    return settings


def has_file_parts(settings: Settings) -> bool:
    """Is any part of the policy from a user's file?"""
    return any(isinstance(getattr(settings.policy, part).parameters, FilePart) for part in QUESTIONS)


def _try_out(settings: Settings, watch: Watch, where: Path = ()) -> None:
    try:
        Engine.try_out(settings, watch)
    except PartFailure as failure:
        source = settings.source
        document = YamlDocument(source.file, source.text) if source else YamlDocument("", "")
        text = f"tried out on a small cluster: {failure.text}; put it right"
        path = (*where, "policy", failure.part)
        raise ConfigError(document.file, [document.problem(path, text)]) from failure


def live_defaults() -> str:
    """Return a treadle.yaml with every default of every part that there is."""
    return default_yaml()

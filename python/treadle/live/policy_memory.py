"""The outcomes of policies with parts from files, stored by a sidecar for the next one.

A folder of its own has the last policy that did well, in full, because its files may have changed since; and the
contents that failed, which are not tried again. A part that gets stuck ends the process by a timer that can only write
its position (`treadle.policy.watchdog`): the file for that names beforehand the policy that runs.

The file ``switches.jsonl`` has every change to another policy, the sidecars' starts with one included, a line each,
with the time in UTC (ISO 8601).
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from treadle.config.settings import Settings, Source
from treadle.config.trust import bases_of_user, read_own, reason_against, state_folders
from treadle.events import PolicySwitch
from treadle.files import write_whole

_log = logging.getLogger(__name__)

BAD_MAX: Final = 32
"""Contents that failed and are remembered; the oldest is forgotten first."""

BYTES_MAX: Final = 64 << 20

SWITCHES_MAX: Final = 256
"""Maximum number of stored changes of policy; the oldest are dropped first."""


def state_folder(config: Path, environment: Mapping[str, str] = os.environ, engine: str = "") -> Path | None:
    """Return the folder for the outcomes of a treadle.yaml's policies; None if no folder is writable.

    With several engines, each but the first has a folder of its own, by its name.

    The folder is next to the file, if it exists for this user or can be made; else in systemd's ``STATE_DIRECTORY``,
    else in the user's folder for state.
    """
    bases = (environment.get("STATE_DIRECTORY", "").partition(":")[0], *bases_of_user(environment))
    beside, *others = state_folders(config, engine, bases)
    if os.access(beside if beside.is_dir() else beside.parent, os.W_OK | os.X_OK):
        return beside
    for folder in others:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return folder
    return None


class PolicyMemory:
    """Remembers in a folder; in none if it is None or cannot be used, which is logged once."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.good: Source | None = None
        """The last policy that did well."""
        self._bad: dict[str, str] = {}
        self._refuse_distrusted()
        self._read()
        self._read_stuck()

    def reason_against(self, digest: str) -> str:
        """Return why contents are not to be used, empty if there is no reason."""
        return self._bad.get(digest, "")

    def remember_good(self, settings: Settings) -> None:
        """Remember a policy that is replaced and has not failed."""
        if settings.source is not None:
            self.good = settings.source
            self._write()

    def remember_bad(self, digest: str, reason: str) -> None:
        """Remember that contents failed."""
        self._bad.pop(digest, None)
        self._bad[digest] = reason
        self._bad = dict(list(self._bad.items())[-BAD_MAX:])
        self._write()

    def remember_switch(self, switch: PolicySwitch) -> None:
        """Keep a change to another policy, with the time."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **asdict(switch)})
        lines = [*self._content("switches.jsonl").splitlines()[1 - SWITCHES_MAX :], line]
        self._replace("switches.jsonl", "".join(f"{each}\n" for each in lines))

    def stuck_file(self, digest: str) -> int | None:
        """Return the descriptor of a file, open for writing, for where a part of these contents gets stuck."""
        if self._folder is None:
            return None
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self._folder / "stuck", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            self._give_up(error)
            return None
        os.write(descriptor, digest.encode() + b"\n")
        return descriptor

    def _refuse_distrusted(self) -> None:
        """Use no folder that others may write to: policies then run again, since their outcomes are not stored."""
        if self._folder is not None and self._folder.exists():
            reason = reason_against(self._folder)
            if reason:
                _log.warning("what became of policies is not remembered: %s", reason)
                self._folder = None

    def _read(self) -> None:
        content = self._content("policies.json")
        if not content:
            return
        try:
            kept = json.loads(content)
            self._bad = {str(digest): str(reason) for digest, reason in kept["bad"].items()}
            if kept["good"] is not None:
                self.good = _source(kept["good"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("%s/policies.json is damaged and is not used: %s", self._folder, error)
            self.good, self._bad = None, {}

    def _read_stuck(self) -> None:
        digest, _, trace = self._content("stuck").partition("\n")
        if self._folder is not None and trace.strip():
            _log.error("the sidecar before this one ended because a part got stuck:\n%s", trace)
            frames = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
            # The stack, innermost frame first, of the thread that was stuck: the first that is a part's.
            parts = [frame for frame in frames if "/treadle/" not in frame and "/threading.py" not in frame]
            self.remember_bad(digest, f"got stuck: {(parts or frames or ['it is not known where'])[0]}")
            (self._folder / "stuck").unlink(missing_ok=True)

    def _content(self, name: str) -> str:
        if self._folder is None:
            return ""
        try:
            return read_own(self._folder / name, BYTES_MAX).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            _log.warning("%s/%s is not believed: %s", self._folder, name, error.strerror)
            return ""

    def _write(self) -> None:
        good = None if self.good is None else _plain(self.good)
        self._replace("policies.json", json.dumps({"good": good, "bad": self._bad}, indent=1))

    def _replace(self, file: str, text: str) -> None:
        """Write a file of the folder, all of it or nothing."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_whole(self._folder / file, text)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        _log.warning("how policies fare will not be remembered: %s: %s", self._folder, error.strerror)
        self._folder = None


def _plain(source: Source) -> dict[str, Any]:
    files = {path: base64.b64encode(content).decode() for path, content in source.part_files.items()}
    return {"file": source.file, "text": source.text, "part_files": files}


def _source(kept: dict[str, Any]) -> Source:
    files = {str(path): base64.b64decode(content) for path, content in kept["part_files"].items()}
    return Source(str(kept["file"]), str(kept["text"]), files)

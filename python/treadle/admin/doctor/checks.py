"""What a check finds, and what checks go by."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from treadle.admin.host.manifest import Manifest, read_manifest
from treadle.admin.host.plan import DEFAULT_PREFIX, installed_user, settings_in
from treadle.admin.host.site_files import read_site, settings_of
from treadle.config.parts import PartRegistry
from treadle.config.trust import trusted_owners, user_name
from treadle.errors import UserError
from treadle.files import read_regular
from treadle.yarn.pages import addresses, expanded

SCRIPT_BYTES_MAX: Final = 1 << 20
"""So much is looked at of a script of Hadoop's."""

TROUBLE_REMEDY: Final = "put that file right, or name another folder with --hadoop-conf"

Status = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has found."""

    status: Status
    text: str
    remedy: str = ""
    """What to do; of ok and skipped what is missing to know more, or nothing."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question, and what answers it."""

    name: str
    group: str
    look: Callable[[Facts], Iterator[Finding]]
    asks_rm: bool = False
    """Has it nothing to say before a ResourceManager runs with Treadle?"""


@dataclass(slots=True)
class Facts:
    """Where to look. What has to be found out is found out once."""

    conf: Path | None = None
    rms: tuple[str, ...] = ()
    """Addresses given; else by the settings."""
    prefix: Path = DEFAULT_PREFIX
    ca: Path | None = None
    user_given: str = ""
    yarn: str | None = None
    """Hadoop's command."""
    java_given: Path | None = None
    parts: PartRegistry | None = None
    """The parts that a policy may have, by which treadle.yaml is judged; None: it is not."""
    site_trouble: str = field(default="", init=False)
    """Why yarn-site.xml could not be read, once `settings` has been asked for."""
    queues_trouble: str = field(default="", init=False)
    """Why capacity-scheduler.xml could not."""
    were_asked: bool = field(default=False, init=False)
    """Has anybody asked for the settings since this was set to False?"""
    unreached_shown: bool = field(default=False, init=False)
    """Has a check shown which ResourceManagers do not answer?"""
    _settings: dict[str, str] | None = field(default=None, init=False)
    beans: dict[str, list[dict[str, Any]]] = field(default_factory=dict, init=False)

    def setting(self, key: str) -> str:
        """Return what yarn-site.xml or capacity-scheduler.xml set for a key; empty if nothing does."""
        return expanded(lambda name: self.settings.get(name, ""))(key)

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the ResourceManager's folder; none if there is no folder, or it cannot be read."""
        self.were_asked = True
        if self._settings is not None:
            return self._settings
        self._settings = {}
        if self.conf is None:
            return self._settings
        try:
            self._settings |= {name: each.value for name, each in settings_in(self.conf).items()}
        except UserError as error:
            self.site_trouble = str(error)
        queues = self.conf / "capacity-scheduler.xml"
        try:
            if os.path.lexists(queues):
                self._settings |= {name: each.value for name, each in settings_of(read_site(queues)).items()}
        except UserError as error:
            self.queues_trouble = str(error)
        return self._settings

    @property
    def trouble(self) -> str:
        """Why settings could not be read; empty if they were."""
        return "; ".join(filter(None, (self.site_trouble, self.queues_trouble)))

    def addresses(self) -> dict[str, str]:
        """Return the addresses of the ResourceManagers' pages, by their id."""
        if self.rms:
            return {"" if len(self.rms) == 1 else str(number): rm for number, rm in enumerate(self.rms, 1)}
        return addresses(lambda key: self.settings.get(key, ""))

    def manifest(self) -> Manifest | None:
        """Return what `treadle install` has written; None if it has not.

        Raises:
            UserError: that cannot be read.
        """
        return read_manifest(self.prefix)

    @property
    def config(self) -> Path | None:
        """The engine's treadle.yaml, if one is set."""
        named = self.setting("yarn.scheduler.treadle.config.file")
        return Path(named) if named else None

    @property
    def known_user(self) -> str:
        """The sidecar's user: the one given, that of the settings or that of `treadle install`; empty if unknown."""
        return self.user_given or self.setting("yarn.scheduler.treadle.sidecar.user") or installed_user(self.prefix)

    @property
    def user(self) -> str:
        """The sidecar's user; the user of this process if the sidecar's is unknown."""
        return self.known_user or user_name(os.geteuid())

    @property
    def users(self) -> frozenset[int]:
        """Whose processes may be sidecars: root's, this user's and the sidecar's user's."""
        return trusted_owners() | {self.uid}

    @property
    def uid(self) -> int:
        """The number of that user; -1 if this host has none of that name."""
        known = self.known_user
        try:
            return pwd.getpwnam(known).pw_uid if known else os.geteuid()
        except KeyError:
            return -1


def set_in_scripts(conf: Path | None, name: str) -> tuple[str, str]:
    """Return what Hadoop's scripts of settings set a variable to, and which script does; empty texts if none does.

    A value with variables in it is left out.

    Raises:
        OSError: a script cannot be read.
    """
    line = re.compile(rf"^\s*(?:export\s+)?{name}=([\"']?)([^\s\"'$;#]+)\1\s*(?:[;#].*)?$", re.MULTILINE)
    for script in ("yarn-env.sh", "hadoop-env.sh"):
        found = line.findall(text_of(conf / script)) if conf is not None else []
        if found:
            return found[-1][1], script
    return "", ""


def text_of(path: Path) -> str:
    """Return a script's text; empty if there is none.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return read_regular(path, SCRIPT_BYTES_MAX).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def mode_of(path: Path) -> str:
    """Return a file's mode as chmod writes it."""
    return f"{path.stat().st_mode & 0o7777:04o}"


def may_write(path: Path, uid: int) -> bool:
    """May a user write to a folder, by its owner and mode? Groups are not looked at: nobody should need one."""
    found = path.stat()
    if uid == 0:
        return True
    return bool(found.st_mode & (0o200 if found.st_uid == uid else 0o002))
